// SPDX-License-Identifier: Apache-2.0
// Buffers and events.
#include "xla/pjrt/client_handle.h"

namespace accelerate::xla {
namespace {

struct TypePair {
  ElementType element;
  PJRT_Buffer_Type pjrt;
};

constexpr TypePair kTypes[] = {
    {ElementType::f32, PJRT_Buffer_Type_F32},
    {ElementType::f64, PJRT_Buffer_Type_F64},
    {ElementType::f16, PJRT_Buffer_Type_F16},
    {ElementType::bf16, PJRT_Buffer_Type_BF16},
    {ElementType::i64, PJRT_Buffer_Type_S64},
    {ElementType::i32, PJRT_Buffer_Type_S32},
    {ElementType::i16, PJRT_Buffer_Type_S16},
    {ElementType::i8, PJRT_Buffer_Type_S8},
    {ElementType::u8, PJRT_Buffer_Type_U8},
    {ElementType::pred, PJRT_Buffer_Type_PRED},
    {ElementType::u32, PJRT_Buffer_Type_U32},
    {ElementType::u64, PJRT_Buffer_Type_U64},
};

}  // namespace

PJRT_Buffer_Type pjrt_type(ElementType type) {
  return kTypes[static_cast<std::size_t>(type)].pjrt;
}

ElementType element_type(PJRT_Buffer_Type type) {
  for (const TypePair& pair : kTypes) {
    if (pair.pjrt == type) {
      return pair.element;
    }
  }
  throw UnsupportedError(str_cat(
      "a compiled XLA program returned an array of PJRT type ",
      type,
      ", which is not supported"));
}

PJRT_Buffer_MemoryLayout row_major(
    std::size_t rank, std::vector<std::int64_t>& indices) {
  indices.clear();
  for (std::size_t i = rank; i > 0; --i) {
    indices.push_back(static_cast<std::int64_t>(i - 1));
  }
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = indices.data();
  layout.tiled.minor_to_major_size = indices.size();
  return layout;
}

Event::Event(std::shared_ptr<const ClientHandle> client, PJRT_Event* event)
    : event_(event, Destroy{std::move(client)}) {
}

void Event::Destroy::operator()(PJRT_Event* event) const {
  ACCELERATE_PJRT_ARGS(Event_Destroy, args);
  args.event = event;
  ACCELERATE_PJRT_DESTROY(*client->api, Event_Destroy, args);
}

void Event::wait() {
  if (event_ == nullptr) {
    return;
  }
  const auto event = std::move(event_);
  ACCELERATE_PJRT_ARGS(Event_Await, args);
  args.event = event.get();
  ACCELERATE_PJRT_CALL(
      *event.get_deleter().client->api, Event_Await, args, "run a program");
}

bool Event::is_ready() const {
  if (event_ == nullptr) {
    return true;
  }
  ACCELERATE_PJRT_ARGS(Event_IsReady, args);
  args.event = event_.get();
  ACCELERATE_PJRT_CALL(
      *event_.get_deleter().client->api, Event_IsReady, args, "run a program");
  return args.is_ready;
}

Buffer::Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer)
    : buffer_(buffer, Destroy{std::move(client)}) {
}

void Buffer::Destroy::operator()(PJRT_Buffer* buffer) const {
  ACCELERATE_PJRT_ARGS(Buffer_Destroy, args);
  args.buffer = buffer;
  ACCELERATE_PJRT_DESTROY(*client->api, Buffer_Destroy, args);
}

ElementType Buffer::type() const {
  ACCELERATE_PJRT_ARGS(Buffer_ElementType, args);
  args.buffer = buffer_.get();
  ACCELERATE_PJRT_CALL(
      *client().api, Buffer_ElementType, args, "describe a buffer");
  return element_type(args.type);
}

Shape Buffer::shape() const {
  ACCELERATE_PJRT_ARGS(Buffer_Dimensions, args);
  args.buffer = buffer_.get();
  ACCELERATE_PJRT_CALL(
      *client().api, Buffer_Dimensions, args, "describe a buffer");
  return {args.dims, args.dims + args.num_dims};
}

void Buffer::download(void* to, std::size_t bytes) const {
  const Shape dims = shape();
  const auto size =
      static_cast<std::size_t>(element_count(dims)) * size_of(type());
  if (bytes != size) {
    throw ArgumentError(str_cat(
        "a buffer of ", size, " bytes cannot be read into ", bytes, " bytes"));
  }
  // Without a layout the plugin would use the device's own, which is tiled on
  // a TPU.
  std::vector<std::int64_t> order;
  PJRT_Buffer_MemoryLayout layout = row_major(dims.size(), order);
  ACCELERATE_PJRT_ARGS(Buffer_ToHostBuffer, args);
  args.src = buffer_.get();
  args.host_layout = &layout;
  args.dst = to;
  args.dst_size = bytes;
  ACCELERATE_PJRT_CALL(
      *client().api, Buffer_ToHostBuffer, args, "download a tensor");
  Event(buffer_.get_deleter().client, args.event).wait();
}

bool Buffer::is_deleted() const {
  ACCELERATE_PJRT_ARGS(Buffer_IsDeleted, args);
  args.buffer = buffer_.get();
  ACCELERATE_PJRT_CALL(
      *client().api, Buffer_IsDeleted, args, "describe a buffer");
  return args.is_deleted;
}

}  // namespace accelerate::xla
