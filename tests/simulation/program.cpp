#include "tests/simulation/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "optim_cpu/convert.h"
#include "tests/simulation/random.h"
#include "tests/simulation/wrong_calls.h"

namespace headrace::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class Author {
 public:
  explicit Author(const Machine& machine)
      : machine_(machine),
        random_(machine.seed ^ 0xC0FFEE),
        faults_(random_.any_of({0U, 0U, 8U, 16U})),
        crashes_(random_.one_in(3)) {}

  Program write() {
    const std::uint64_t length = random_.one_in(3) ? 30 + random_.below(60) : 3 + random_.below(30);
    while (program_.size() < length) next();
    return std::move(program_);
  }

 private:
  using Writer = void (Author::*)();
  struct Weight {
    std::uint64_t weight;
    Writer write;
  };

  void next() {
    const Weight weights[] = {
        {16, &Author::gradients},   {26, &Author::step},
        {1, &Author::drop},         {12, &Author::acquire},
        {9, &Author::release},      {8, &Author::read},
        {6, &Author::write_range},  {2, &Author::hash},
        {6, &Author::save},         {6, &Author::load},
        {3, &Author::settle},       {5, &Author::idle},
        {2, &Author::close},        {2, &Author::misuse},
        {faults_, &Author::strike}, {crashes_ ? 4U : 0U, &Author::crash},
    };
    std::uint64_t total = 0;
    for (const Weight& each : weights) total += each.weight;
    std::uint64_t drawn = random_.below(total);
    for (const Weight& each : weights) {
      if (drawn < each.weight) return (this->*each.write)();
      drawn -= each.weight;
    }
  }

  Op& add(OpKind kind) {
    Op& op = program_.emplace_back();
    op.kind = kind;
    op.seed = random_.bits();
    op.wait = random_.one_in(4);
    return op;
  }
  std::uint32_t tensor() {
    return static_cast<std::uint32_t>(random_.below(machine_.tensors.size()));
  }
  std::uint32_t small(std::uint64_t below) {
    return static_cast<std::uint32_t>(random_.below(below));
  }

  void gradient(std::uint32_t of) {
    Op& op = add(OpKind::put);
    op.index = of;
    op.type = random_.any_of({ScalarType::fp32, ScalarType::bf16, ScalarType::fp16});
    op.late = random_.one_in(3);
    if (random_.one_in(25))
      op.special = random_.any_of({Special::infinite, Special::nan, Special::tiny});
    op.time = microseconds(random_.spread(1, 2'000));
  }
  // One tensor's, or those of a random subset in backward order.
  void gradients() {
    if (random_.one_in(2)) return gradient(tensor());
    const std::uint64_t leave_out = random_.any_of({4U, 100U});
    for (std::uint32_t t = static_cast<std::uint32_t>(machine_.tensors.size()); t-- > 0;)
      if (machine_.tensors[t].trainable && !random_.one_in(leave_out)) gradient(t);
  }
  // Mostly after some gradients, and with no lease left.
  void step() {
    if (!random_.one_in(4)) {
      gradients();
      for (; held_ > 0 && !random_.one_in(6); --held_) release();
    }
    Op& op = add(OpKind::step);
    op.max_norm = random_.any_of({0.0, 0.5, 5.0, 1e6});
    op.grad_scale = random_.any_of({1.0, 1.0, 1024.0});
    op.skip_non_finite = !random_.one_in(4);
  }
  void drop() { add(OpKind::drop); }
  void acquire() {
    add(OpKind::acquire).index = small(machine_.units);
    ++held_;
  }
  void release() {
    Op& op = add(OpKind::release);
    op.index = small(4);
    op.late = random_.one_in(2);
    op.time = microseconds(random_.spread(1, 5'000));
  }
  void range(Op& op) {
    op.index = tensor();
    op.what = random_.any_of({Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param});
    const std::uint64_t count = machine_.tensors[op.index].count;
    if (random_.one_in(2) || count == 0) {
      op.range = {0, count};
      return;
    }
    op.range.begin = random_.below(count);
    op.range.count = 1 + random_.below(count - op.range.begin);
  }
  void read() { range(add(OpKind::read)); }
  void write_range() { range(add(OpKind::write)); }
  void hash() { add(OpKind::hash); }
  void save() { add(OpKind::save); }
  void load() { add(OpKind::load); }
  void settle() { add(OpKind::settle); }
  void idle() { add(OpKind::idle).time = microseconds(random_.spread(1, 20'000)); }
  void close() { add(OpKind::close).time = milliseconds(random_.any_of({0, 50'000, 50'000})); }
  void misuse() { add(OpKind::misuse).index = small(kWrongCalls); }
  void crash() { add(OpKind::crash).index = small(random_.any_of({1U, 8U, 30U})); }

  void strike() {
    Op& op = add(OpKind::strike);
    op.strike.files = random_.one_in(4) ? FileKind::checkpoint : FileKind::state;
    Fault& fault = op.strike.fault;
    fault.direction = random_.any_of({Direction::read, Direction::write});
    fault.kind =
        random_.any_of({FaultKind::error, FaultKind::error, FaultKind::error, FaultKind::error,
                        FaultKind::short_transfer, FaultKind::zero_progress, FaultKind::delay,
                        FaultKind::bit_flip, FaultKind::never_completes, FaultKind::lost_write});
    if (fault.kind == FaultKind::never_completes && !random_.one_in(3))
      fault.kind = FaultKind::delay;
    if (fault.kind == FaultKind::lost_write) fault.direction = Direction::write;
    if (random_.one_in(12) && fault.kind == FaultKind::error) fault.direction = Direction::sync;
    fault.first = random_.below(random_.any_of({1U, 2U, 6U}));
    fault.times = random_.any_of({1U, 1U, 1U, 2U, 5U});
    fault.errno_value = random_.any_of({EINTR, EAGAIN, ECANCELED, EIO, EIO, EIO, ENOSPC});
    fault.amount = fault.kind == FaultKind::bit_flip
                       ? random_.below(8 * 24 * kKiB)
                       : alignment() * random_.below(4) + (random_.one_in(9) ? 100 : 0);
    fault.time = random_.one_in(8) ? Nanoseconds(std::chrono::seconds(60))
                                   : microseconds(random_.spread(10, 100'000));
    if (random_.one_in(2)) step();
  }

  // A shorter transfer is no progress.
  std::uint64_t alignment() const {
    return std::max<std::uint64_t>(4'096, machine_.engine.nvme_alignment);
  }

  const Machine& machine_;
  Random random_;
  const std::uint64_t faults_;
  const bool crashes_;
  std::uint64_t held_ = 0;  // leases, more or less
  Program program_;
};

const char* name_of(OpKind kind) {
  constexpr const char* kNames[] = {"put",   "step",   "drop",  "acquire", "release", "read",
                                    "write", "hash",   "save",  "load",    "settle",  "idle",
                                    "close", "strike", "crash", "misuse"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string range_of(const Op& op) {
  return fmt::format("t{} {} [{}, +{})", op.index, headrace::name_of(op.what), op.range.begin,
                     op.range.count);
}

std::string details_of(const Op& op) {
  constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
  constexpr const char* kSpecials[] = {"", ", with an infinity", ", with a NaN",
                                       ", with a tiny one"};
  const auto micros = op.time.count() / 1000;
  switch (op.kind) {
    case OpKind::put:
      return fmt::format("t{} in {}{}{}", op.index, kTypes[static_cast<std::size_t>(op.type)],
                         op.late ? fmt::format(", filled in {} us", micros) : "",
                         kSpecials[static_cast<std::size_t>(op.special)]);
    case OpKind::step:
      return fmt::format("max_norm {}, scale {}{}", op.max_norm, op.grad_scale,
                         op.skip_non_finite ? "" : ", whatever the gradients are");
    case OpKind::acquire:
      return fmt::format("unit {}", op.index);
    case OpKind::release:
      return fmt::format("lease {}{}", op.index,
                         op.late ? fmt::format(", last used in {} us", micros) : "");
    case OpKind::read:
    case OpKind::write:
      return range_of(op);
    case OpKind::idle:
    case OpKind::close:
      return fmt::format("{} us", micros);
    case OpKind::strike:
      return to_string(op.strike);
    case OpKind::crash:
      return fmt::format("{} calls from now", op.index);
    case OpKind::misuse:
      return fmt::format("call {}", op.index);
    default:
      return {};
  }
}

}  // namespace

std::vector<std::byte> gradient_of(const Op& op, std::uint64_t count) {
  std::vector<float> values = random_values(count, op.seed);
  if (count > 0 && op.special != Special::none) {
    using limits = std::numeric_limits<float>;
    const float special = op.special == Special::nan        ? limits::quiet_NaN()
                          : op.special == Special::infinite ? -limits::infinity()
                                                            : limits::denorm_min();
    values[op.seed % count] = special;
  }
  std::vector<std::byte> elements(count * size_of(op.type));
  convert(elements.data(), op.type, reinterpret_cast<const std::byte*>(values.data()),
          ScalarType::fp32, count, Team{});
  return elements;
}

Program random_program(const Machine& machine) { return Author(machine).write(); }

std::string to_string(const Op& op) {
  const bool waits =
      op.kind == OpKind::put || op.kind == OpKind::step || op.kind == OpKind::acquire;
  return fmt::format("{} {}{}", name_of(op.kind), details_of(op),
                     waits && op.wait ? ", waited for" : "");
}

}  // namespace headrace::simulation
