// Calls that no program may make: each is Code::invalid and changes nothing.
#pragma once

#include <cstdint>

#include "runtime/engine.h"
#include "tests/simulation/machine.h"

namespace headrace::simulation {

inline constexpr std::uint32_t kWrongCalls = 9;

// Makes the wrong call of this number and gives what the engine said.
Status wrong_call(std::uint32_t number, Engine& engine, const Machine& machine);

}  // namespace headrace::simulation
