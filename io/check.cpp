#include "io/check.h"

#include <cstdio>
#include <cstdlib>

namespace headrace {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "headrace: broken contract: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace headrace
