// A call that must be refused, what it must answer, and what the message must speak of.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tests/runtime/small_model.h"

namespace headrace::small {

struct Wrong {
  const char* what;
  std::function<Status(Engine&)> call;
  std::vector<const char*> mentions;
  Code code = Code::invalid;
};

inline void expect_refused(const Wrong& wrong, Engine& engine) {
  const Status how = wrong.call(engine);
  EXPECT_EQ(how.code(), wrong.code) << wrong.what << ": " << how.to_string();
  for (const char* word : wrong.mentions)
    EXPECT_NE(how.message().find(word), std::string_view::npos)
        << wrong.what << " does not mention '" << word << "': " << how.to_string();
}

inline Status read_some(Engine& engine, TensorId tensor, Kind kind, Range range,
                        std::size_t bytes) {
  std::vector<std::byte> to(bytes);
  return engine.read(tensor, kind, range, MemView(Bytes(to)));
}

inline Status write_some(Engine& engine, TensorId tensor, Kind kind, Range range,
                         std::size_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{0x3f});
  return engine.write(tensor, kind, range, ConstMemView(ConstBytes(from)));
}

}  // namespace headrace::small
