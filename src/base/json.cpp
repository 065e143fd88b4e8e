// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <unordered_map>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Below this number of members, a linear search is faster than hashing.
constexpr std::size_t kMinIndexedMembers = 16;

const char* name_of(Json::Type type) {
  switch (type) {
    case Json::Type::null:
      return "null";
    case Json::Type::boolean:
      return "a boolean";
    case Json::Type::integer:
      return "an integer";
    case Json::Type::real:
      return "a number";
    case Json::Type::string:
      return "a string";
    case Json::Type::array:
      return "an array";
    case Json::Type::object:
      return "an object";
  }
  return "nothing";
}

[[noreturn]] void throw_type(const char* wanted, Json::Type got) {
  throw FormatError(str_cat("expected ", wanted, ", found ", name_of(got)));
}

}  // namespace

class JsonObject::Index {
 public:
  std::unordered_map<std::string, std::size_t> positions;
};

JsonObject::JsonObject() = default;
JsonObject::JsonObject(const JsonObject& other) : members_(other.members_) {
}
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(const JsonObject& other) {
  members_ = other.members_;
  index_.reset();
  return *this;
}
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;
JsonObject::~JsonObject() = default;

std::size_t JsonObject::size() const noexcept {
  return members_.size();
}

const JsonMember* JsonObject::begin() const noexcept {
  return members_.data();
}
const JsonMember* JsonObject::end() const noexcept {
  return members_.data() + members_.size();
}
JsonMember* JsonObject::begin() noexcept {
  // The caller may rename a member through the returned reference.
  index_.reset();
  return members_.data();
}
JsonMember* JsonObject::end() noexcept {
  return members_.data() + members_.size();
}

std::size_t JsonObject::position(std::string_view key) const {
  if (members_.size() < kMinIndexedMembers) {
    const auto found = std::find_if(
        members_.begin(), members_.end(), [&](const JsonMember& member) {
          return member.key == key;
        });
    return static_cast<std::size_t>(found - members_.begin());
  }
  if (index_ == nullptr) {
    index_ = std::make_unique<Index>();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      index_->positions.emplace(members_[i].key, i);
    }
  }
  const auto found = index_->positions.find(std::string(key));
  return found == index_->positions.end() ? members_.size() : found->second;
}

const Json* JsonObject::find(std::string_view key) const {
  const std::size_t at = position(key);
  return at == members_.size() ? nullptr : &members_[at].value;
}

Json* JsonObject::find(std::string_view key) {
  const std::size_t at = position(key);
  return at == members_.size() ? nullptr : &members_[at].value;
}

Json& JsonObject::operator[](std::string_view key) {
  if (Json* found = find(key)) {
    return *found;
  }
  if (index_ != nullptr) {
    index_->positions.emplace(key, members_.size());
  }
  return members_.emplace_back(JsonMember{std::string(key), Json()}).value;
}

bool JsonObject::erase(std::string_view key) {
  const std::size_t at = position(key);
  if (at == members_.size()) {
    return false;
  }
  index_.reset();
  members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

Json::Json(std::string_view value) : value_(std::string(value)) {
}
Json::Json(const char* value) : value_(std::string(value)) {
}

Json Json::array(std::initializer_list<Json> elements) {
  return Json(Array(elements));
}

Json Json::object(
    std::initializer_list<std::pair<std::string_view, Json>> members) {
  Object result;
  for (const auto& [key, value] : members) {
    result[key] = value;
  }
  return Json(std::move(result));
}

bool Json::as_bool() const {
  if (const auto* value = std::get_if<bool>(&value_)) {
    return *value;
  }
  throw_type("a boolean", type());
}

std::int64_t Json::as_integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    return *value;
  }
  throw_type("an integer", type());
}

double Json::as_double() const {
  if (const auto* value = std::get_if<double>(&value_)) {
    return *value;
  }
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  throw_type("a number", type());
}

const std::string& Json::as_string() const {
  if (const auto* value = std::get_if<std::string>(&value_)) {
    return *value;
  }
  throw_type("a string", type());
}

const Json::Array& Json::as_array() const {
  if (const auto* value = std::get_if<Array>(&value_)) {
    return *value;
  }
  throw_type("an array", type());
}

Json::Array& Json::as_array() {
  return const_cast<Array&>(std::as_const(*this).as_array());
}

const Json::Object& Json::as_object() const {
  if (const auto* value = std::get_if<Object>(&value_)) {
    return *value;
  }
  throw_type("an object", type());
}

Json::Object& Json::as_object() {
  return const_cast<Object&>(std::as_const(*this).as_object());
}

std::size_t Json::size() const noexcept {
  if (const auto* array = std::get_if<Array>(&value_)) {
    return array->size();
  }
  const auto* object = std::get_if<Object>(&value_);
  return object == nullptr ? 0 : object->size();
}

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value_);
  return object == nullptr ? nullptr : object->find(key);
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = as_object().find(key)) {
    return *found;
  }
  throw FormatError(str_cat("the key `", key, "` is missing"));
}

const Json& Json::at(std::size_t index) const {
  const Array& elements = as_array();
  if (index < elements.size()) {
    return elements[index];
  }
  throw FormatError(str_cat(
      "index ",
      index,
      " is out of range for an array of size ",
      elements.size()));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) {
    value_ = Object();
  }
  return as_object()[key];
}

void Json::push_back(Json element) {
  if (is_null()) {
    value_ = Array();
  }
  as_array().push_back(std::move(element));
}

bool Json::operator==(const Json& other) const {
  if (is_object() && other.is_object()) {
    // The order of members is only for human readers; equality ignores it.
    return size() == other.size() &&
           std::all_of(
               as_object().begin(),
               as_object().end(),
               [&](const JsonMember& member) {
                 const Json* found = other.find(member.key);
                 return found != nullptr && *found == member.value;
               });
  }
  if (type() != other.type()) {
    return false;
  }
  switch (type()) {
    case Type::null:
      return true;
    case Type::boolean:
      return as_bool() == other.as_bool();
    case Type::integer:
      return as_integer() == other.as_integer();
    case Type::real:
      return as_double() == other.as_double();
    case Type::string:
      return as_string() == other.as_string();
    case Type::array:
      return as_array() == other.as_array();
    case Type::object:
      return false;
  }
  return false;
}

}  // namespace accelerate
