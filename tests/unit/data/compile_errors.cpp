// SPDX-License-Identifier: Apache-2.0
// A `DataLoader` refuses an unsuitable dataset. compile_errors.sh compiles
// each of these cases and looks for the text in the error message:
//
// refused CASE_NOT_CONST: a const, thread-safe
// refused CASE_NO_DATASET: a DataLoader needs a dataset with
// refused CASE_NO_COLLATE: pass a collate function as the third argument
#include <string>

#include <accelerate/data_loader.h>

struct NotConst {
  std::int64_t size() const { return 1; }
  int get(std::int64_t) { return 1; }
};

struct Text {
  std::int64_t size() const { return 1; }
  std::string get(std::int64_t) const { return ""; }
};

struct Good {
  std::int64_t size() const { return 1; }
  int get(std::int64_t) const { return 1; }
};

int main() {
#if defined(CASE_NOT_CONST)
  accelerate::DataLoader loader(NotConst(), {.batch_size = 8});
#elif defined(CASE_NO_DATASET)
  accelerate::DataLoader loader(3, {.batch_size = 8});
#elif defined(CASE_NO_COLLATE)
  accelerate::DataLoader loader(Text(), {.batch_size = 8});
#else
  accelerate::DataLoader loader(Good(), {.batch_size = 8});
#endif
  for (auto& batch : loader) {
    static_cast<void>(batch);
  }
}
