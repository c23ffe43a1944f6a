// Pages for buffers that disks and devices move: huge where granted, touched, never forked, never
// dumped; and pages that only their owner can reach, as a device's memory.
//
// Called by the host device, from any thread.
#pragma once

#include <cstdint>

#include "io/bytes.h"
#include "io/status.h"

namespace headrace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = 2 * kMiB;

// The next power of two at or above `size`, within a page and a huge page.
std::size_t page_alignment(std::size_t size) noexcept;

// Zeroed, touched, aligned to page_alignment(size). `numa_node`: where the pages are preferred
// (-1: anywhere). Code::out_of_memory when the machine does not give them; Code::invalid for a node
// that is not there; size must not be zero.
Result<Bytes> map_pages(std::size_t size, int numa_node);
// Addresses alone, aligned the same: whoever touches them faults. Costs no memory.
Result<Bytes> reserve_pages(std::size_t size);
void unmap_pages(Bytes pages) noexcept;

// Of the mappings that hold `pages`, the share that lies in huge pages (1: all).
double huge_page_share(ConstBytes pages);

// The same bytes at two addresses: `name` may be handed out and faults when it is followed.
struct HiddenPages {
  std::byte* name = nullptr;
  Bytes bytes;
};
Result<HiddenPages> map_hidden_pages(std::size_t size);
void unmap_hidden_pages(const HiddenPages& pages) noexcept;

}  // namespace headrace
