#include "io/device.h"

namespace headrace {

Result<std::unique_ptr<Device>> Device::open_cuda(int) {
  return Status(Code::unavailable,
                "built without CUDA: use the host device, or build where CMake finds the toolkit");
}

}  // namespace headrace
