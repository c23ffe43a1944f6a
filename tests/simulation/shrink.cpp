#include "tests/simulation/shrink.h"

#include <algorithm>
#include <numeric>

namespace headrace::simulation {

Program chosen(const Program& program, const std::vector<std::size_t>& numbers) {
  Program left;
  for (const std::size_t number : numbers)
    if (number < program.size()) left.push_back(program[number]);
  return left;
}

std::vector<std::size_t> shrink(const Machine& machine, const Program& program, std::size_t runs) {
  std::vector<std::size_t> numbers(program.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::size_t piece = std::max<std::size_t>(numbers.size() / 2, 1);
  while (runs > 0) {
    bool fewer = false;
    for (std::size_t from = 0; from < numbers.size() && runs > 0; --runs) {
      std::vector<std::size_t> without = numbers;
      const auto begin = without.begin() + static_cast<std::ptrdiff_t>(from);
      const std::size_t count = std::min(piece, numbers.size() - from);
      without.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (run(machine, chosen(program, without)).violation) {
        numbers = std::move(without);
        fewer = true;
      } else {
        from += piece;
      }
    }
    if (piece == 1 && !fewer) break;
    piece = std::max<std::size_t>(piece / 2, 1);
  }
  return numbers;
}

}  // namespace headrace::simulation
