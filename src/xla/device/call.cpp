// SPDX-License-Identifier: Apache-2.0
#include "xla/device/call.h"

#include <algorithm>

#include <ATen/native/TypeProperties.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::xla {
namespace {

template <typename T>
T element_of(const at::Tensor& tensor) {
  return *static_cast<const T*>(tensor.const_data_ptr());
}

// A CPU tensor without dimensions as a scalar of `type`.
Value cpu_scalar(const at::Tensor& tensor, ElementType type) {
  switch (tensor.scalar_type()) {
    case c10::ScalarType::Double:
      return scalar(element_of<double>(tensor), type);
    case c10::ScalarType::Float:
      return scalar(element_of<float>(tensor), type);
    case c10::ScalarType::Long:
      return is_floating(type)
                 ? scalar(
                       static_cast<double>(element_of<std::int64_t>(tensor)),
                       type)
                 : constant_integer(element_of<std::int64_t>(tensor), type);
    case c10::ScalarType::Bool:
      return constant(element_of<bool>(tensor) ? 1 : 0, type);
    default:
      return scalar(tensor.item().toDouble(), type);
  }
}

Value number_scalar(const c10::Scalar& number, ElementType type) {
  return number.isIntegral(/*includeBool=*/true) && !is_floating(type)
             ? constant_integer(number.toLong(), type)
             : scalar(number.toDouble(), type);
}

}  // namespace

ElementType float_type(ElementType type) {
  return is_floating(type) ? type : ElementType::f32;
}

ElementType accumulation_type(ElementType type) {
  return type == ElementType::bf16 || type == ElementType::f16
             ? ElementType::f32
             : type;
}

bool Call::has_tensor(std::size_t i) const {
  return arguments_[i].isTensor() && arguments_[i].toTensor().defined();
}

const at::Tensor& Call::tensor(std::size_t i) const {
  return arguments_[i].toTensor();
}

Value Call::value(std::size_t i) const {
  const c10::IValue& argument = arguments_[i];
  return value(
      i,
      argument.isTensor()   ? element_type_of(argument.toTensor().scalar_type())
      : argument.isDouble() ? ElementType::f32
                            : ElementType::i64);
}

Value Call::value(std::size_t i, ElementType type) const {
  if (!arguments_[i].isTensor()) {
    return number_scalar(arguments_[i].toScalar(), type);
  }
  const at::Tensor& operand = tensor(i);
  if (is_xla(operand)) {
    return convert(read(operand), type);
  }
  if (operand.dim() != 0) {
    throw ArgumentError(
        str_cat(
            name_, " got a tensor on ", operand.device(), " and one on xla:0"),
        "move both tensors to the same device");
  }
  return cpu_scalar(operand, type);
}

std::vector<at::Tensor> Call::tensors(std::size_t i) const {
  std::vector<at::Tensor> list;
  for (const c10::IValue& item : arguments_[i].toListRef()) {
    list.push_back(item.isNone() ? at::Tensor() : item.toTensor());
  }
  return list;
}

double Call::number(std::size_t i) const {
  return arguments_[i].toScalar().toDouble();
}

std::int64_t Call::integer(std::size_t i) const {
  return arguments_[i].toInt();
}

bool Call::flag(std::size_t i) const {
  return arguments_[i].toBool();
}

Dims Call::integers(std::size_t i) const {
  return arguments_[i].isNone() ? Dims() : arguments_[i].toIntVector();
}

std::string_view Call::text(std::size_t i) const {
  return arguments_[i].toStringView();
}

std::int64_t Call::dim(std::size_t i, std::size_t rank) const {
  const auto count = std::max<std::int64_t>(static_cast<std::int64_t>(rank), 1);
  const std::int64_t dim = integer(i);
  if (dim < -count || dim >= count) {
    throw ArgumentError(str_cat(
        name_,
        ": dimension ",
        dim,
        " is out of range; the number of dimensions is ",
        rank));
  }
  return dim < 0 ? dim + count : dim;
}

Dims Call::dims(std::size_t i, std::size_t rank) const {
  Dims list = integers(i);
  const auto count = static_cast<std::int64_t>(rank);
  if (list.empty()) {
    for (std::int64_t dim = 0; dim < count; ++dim) {
      list.push_back(dim);
    }
    return list;
  }
  if (rank == 0) {
    return {};
  }
  for (std::int64_t& dim : list) {
    if (dim < -count || dim >= count) {
      throw ArgumentError(str_cat(
          name_,
          ": dimension ",
          dim,
          " is out of range; the number of dimensions is ",
          rank));
    }
    dim += dim < 0 ? count : 0;
  }
  std::sort(list.begin(), list.end());
  return list;
}

ElementType Call::type(std::size_t i) const {
  return element_type_of(tensor(i).scalar_type());
}

ElementType Call::promoted(const std::vector<std::size_t>& list) const {
  at::native::ResultTypeState state;
  for (const std::size_t i : list) {
    state = arguments_[i].isTensor()
                ? at::native::update_result_type_state(tensor(i), state)
                : at::native::update_result_type_state(
                      arguments_[i].toScalar(), state);
  }
  return element_type_of(at::native::result_type(state));
}

ElementType Call::dtype_or(std::size_t i, ElementType otherwise) const {
  return arguments_[i].isNone() ? otherwise
                                : element_type_of(arguments_[i].toScalarType());
}

}  // namespace accelerate::xla
