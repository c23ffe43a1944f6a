#include "optim_cpu/convert.h"

#include <cstring>

namespace headrace {
namespace {

// Below this a team costs more than it saves.
constexpr std::size_t kPieceElements = 32 * 1024;

template <ScalarType type>
struct Element;

template <>
struct Element<ScalarType::fp32> {
  using Stored = float;
  static float loaded(float value) { return value; }
  static float stored(float value) { return value; }
};

template <>
struct Element<ScalarType::bf16> {
  using Stored = std::uint16_t;
  static float loaded(Stored bits) { return float_of_bf16(bits); }
  static Stored stored(float value) { return bf16_of_float(value); }
};

template <>
struct Element<ScalarType::fp16> {
  using Stored = std::uint16_t;
  static float loaded(Stored bits) { return float_of_fp16(bits); }
  static Stored stored(float value) { return fp16_of_float(value); }
};

// Calls body with a type's Element.
template <class Body>
void for_type(ScalarType type, const Body& body) {
  switch (type) {
    case ScalarType::fp32:
      return body(Element<ScalarType::fp32>{});
    case ScalarType::bf16:
      return body(Element<ScalarType::bf16>{});
    case ScalarType::fp16:
      return body(Element<ScalarType::fp16>{});
  }
}

// Calls body(part) with each thread's part of count elements.
template <class Body>
void on_parts(std::size_t count, const Team& team, const Body& body) {
  const std::size_t pieces = count / kPieceElements + 1;
  Team some = team;
  if (pieces < static_cast<std::size_t>(team.threads)) some.threads = static_cast<int>(pieces);
  on_team(some, [&](int thread) { body(part_of(count, thread, some.threads)); });
}

template <class Dst, class Src>
void convert_part(typename Dst::Stored* __restrict dst, const typename Src::Stored* __restrict src,
                  Part part) {
  for (std::size_t i = part.begin; i < part.end; ++i) dst[i] = Dst::stored(Src::loaded(src[i]));
}

template <class Src>
void add_part(float* __restrict sum, const typename Src::Stored* __restrict src, Part part) {
  for (std::size_t i = part.begin; i < part.end; ++i) sum[i] += Src::loaded(src[i]);
}

template <class To>
To* as(std::byte* bytes) {
  return reinterpret_cast<To*>(bytes);
}

template <class To>
const To* as(const std::byte* bytes) {
  return reinterpret_cast<const To*>(bytes);
}

}  // namespace

void convert(std::byte* dst, ScalarType dst_type, const std::byte* src, ScalarType src_type,
             std::size_t count, const Team& team) {
  if (count == 0) return;
  on_parts(count, team, [&](Part part) {
    const std::size_t size = size_of(src_type);
    if (dst_type == src_type) {
      std::memcpy(dst + part.begin * size, src + part.begin * size, (part.end - part.begin) * size);
      return;
    }
    for_type(dst_type, [&](auto to) {
      for_type(src_type, [&](auto from) {
        using To = decltype(to);
        using From = decltype(from);
        convert_part<To, From>(as<typename To::Stored>(dst), as<typename From::Stored>(src), part);
      });
    });
  });
}

void add_gradient(float* sum, const std::byte* src, ScalarType src_type, std::size_t count,
                  const Team& team) {
  if (count == 0) return;
  on_parts(count, team, [&](Part part) {
    for_type(src_type, [&](auto from) {
      using From = decltype(from);
      add_part<From>(sum, as<typename From::Stored>(src), part);
    });
  });
}

}  // namespace headrace
