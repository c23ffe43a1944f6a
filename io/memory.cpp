#include "io/memory.h"

#ifdef __SANITIZE_ADDRESS__
extern "C" void __lsan_ignore_object(const void* memory);
#endif

namespace headrace {

void Memory::abandon() noexcept {
  if (!give_back_) return;
  give_back_ = nullptr;
#ifdef __SANITIZE_ADDRESS__
  __lsan_ignore_object(view_.data);  // a leak on purpose
#endif
}

}  // namespace headrace
