// A random program: operations as data, so that they can be printed, dropped and run again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/drive.h"
#include "tests/simulation/machine.h"

namespace headrace::simulation {

enum class OpKind : std::uint8_t {
  put,      // a gradient
  step,     // lazy: waited for if `wait`
  drop,     // the gradients
  acquire,  // a unit; its bits are looked at once `wait`ed for, or when it is released
  release,  // one of the leases; `late`: a reader on another lane is not over yet
  read,     // a range
  write,    // a range
  hash,     // state_hash()
  save,     // to the run's one checkpoint folder
  load,     // from it
  settle,   // waits for every step queued so far
  idle,     // lets time pass
  close,    // the engine, and opens the next one on the same platform
  strike,   // arms a fault
  crash,    // of the process, `index` calls of its drives from now on
  misuse,   // number `index` of some wrong calls
};

enum class Special : std::uint8_t { none, infinite, nan, tiny };  // the value of one element

struct Op {
  OpKind kind = OpKind::settle;
  std::uint32_t index = 0;  // tensor, unit, lease, ...
  std::uint64_t seed = 0;   // of values
  Kind what = Kind::master;
  ScalarType type = ScalarType::fp32;
  Range range;
  bool late = false;  // put: a task on another lane fills the source
  bool wait = false;
  Special special = Special::none;
  double max_norm = 0;
  double grad_scale = 1;
  bool skip_non_finite = true;
  Nanoseconds time{0};
  Strike strike;
};

using Program = std::vector<Op>;

Program random_program(const Machine& machine);
std::string to_string(const Op& op);
// The bytes that a put gives for a tensor of `count` elements.
std::vector<std::byte> gradient_of(const Op& op, std::uint64_t count);

}  // namespace headrace::simulation
