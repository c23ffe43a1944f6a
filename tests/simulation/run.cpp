#include "tests/simulation/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/random.h"
#include "tests/simulation/stage.h"
#include "tests/simulation/wrong_calls.h"
#include "tests/support/gate.h"

namespace headrace::simulation {
namespace {

// What a lease must show.
struct Expected {
  ConstMemView view;
  std::vector<std::byte> bytes;
};
using Expectations = std::shared_ptr<const std::vector<Expected>>;

bool holds(const std::vector<Expected>& expectations) {
  return std::ranges::all_of(expectations, [](const Expected& each) {
    return std::equal(each.bytes.begin(), each.bytes.end(), each.view.data);
  });
}

struct Held {
  Lease lease;
  Expectations expected;
};

struct Put {
  Event in;
  std::vector<std::byte>* source;
};

class Run {
 public:
  Run(const Machine& machine, const Program& program)
      : machine_(machine), program_(program), stage_(machine) {}

  Outcome go();

 private:
  void perform(const Op& op);
  void put(const Op& op);
  Event filled_later(const Op& op, std::vector<std::byte>& source);
  void step(const Op& op);
  void compare(const StepReport& report, const Verdict& verdict);
  void drop(const Op& op);
  void acquire(const Op& op);
  void release(const Op& op);
  bool look(const Held& held);
  void read(const Op& op);
  void write(const Op& op);
  void hash(const Op& op);
  void save(const Op& op);
  void load(const Op& op);
  void settle();
  void settle_op(const Op&) { settle(); }
  void idle(const Op& op);
  void close(Nanoseconds timeout);
  void reopen(const Op& op);
  void strike(const Op& op);
  void crash(const Op& op) { stage_.trouble->crash_in(op.index); }
  void misuse(const Op& op);

  void notice();  // what has ended by now
  void start_again();
  void end();
  Code if_usable(Code legal) const { return stage_.refusing ? Code::poisoned : legal; }
  bool leased(TensorId root) const;
  bool frozen_moment(const Op& op) const;
  Expectations expectations_of(const Lease& lease) const;

  const Machine& machine_;
  const Program& program_;
  Counts counts_;
  Stage stage_;
  std::vector<Held> leases_;
  std::vector<Put> puts_;
  std::shared_ptr<bool> read_wrong_ = std::make_shared<bool>(false);  // by a late reader
};

Outcome Run::go() {
  counts_.seeds = 1;
  stage_.open();
  std::size_t at = 0;
  for (; at < program_.size() && !stage_.ended(); ++at) {
    ++counts_.operations;
    const Nanoseconds begin = stage_.platform->clock().now();
    notice();
    perform(program_[at]);
    const Nanoseconds took = stage_.platform->clock().now() - begin;
    if (took > 12 * machine_.engine.deadline)
      stage_.violate(fmt::format("it took {} s", took.count() / 1'000'000'000));
    if (*read_wrong_) stage_.violate("a lease's bits changed before its last use was over");
    if (stage_.trouble->crashed()) start_again();
    if (stage_.violation) break;
  }
  if (!stage_.ended()) end();
  counts_.corrupt = stage_.corrupt;
  counts_.poisoned = stage_.poisonings;
  counts_.unbuildable = stage_.unbuildable;
  counts_.reopened = stage_.reopened;
  return {stage_.violation, at, counts_};
}

void Run::perform(const Op& op) {
  using Performer = void (Run::*)(const Op&);
  constexpr Performer kPerformers[] = {&Run::put,     &Run::step,   &Run::drop,      &Run::acquire,
                                       &Run::release, &Run::read,   &Run::write,     &Run::hash,
                                       &Run::save,    &Run::load,   &Run::settle_op, &Run::idle,
                                       &Run::reopen,  &Run::strike, &Run::crash,     &Run::misuse};
  (this->*kPerformers[static_cast<std::size_t>(op.kind)])(op);
}

// Until `after` is over the source is not what it will be.
Event Run::filled_later(const Op& op, std::vector<std::byte>& source) {
  auto values = std::make_shared<std::vector<std::byte>>(source);
  std::ranges::fill(source, std::byte{0xff});
  const Event computed = stage_.stream->occupy(op.time, "backward");
  return stage_.stream->launch(
      [values, &source](NativeStream) {
        source = *values;
        return Status();
      },
      computed);
}

void Run::put(const Op& op) {
  const TensorId tensor{op.index};
  Reference& reference = stage_.reference;
  const std::uint64_t count = machine_.tensors[op.index].count;
  std::vector<std::byte>& source = stage_.keep(gradient_of(op, count));
  const bool takes = reference.trainable(tensor) && reference.takes_gradient(tensor);
  if (takes && !stage_.refusing) reference.put(tensor, source, op.type);
  const Event after = op.late ? filled_later(op, source) : Event();
  const Event in = stage_.engine->put_grad(tensor, ConstBytes(source), op.type, after);
  if (!takes || stage_.refusing || op.wait) {
    const Status how = stage_.engine->wait(in);
    if (!in.done() && op.late && stage_.trouble->stuck()) return;  // its source does not come
    stage_.judge("put_grad", how, if_usable(takes ? Code::ok : Code::invalid));
    return;
  }
  puts_.push_back({in, &source});
}

void Run::compare(const StepReport& report, const Verdict& verdict) {
  if (report.applied != verdict.applied)
    return stage_.violate(
        fmt::format("the step was {}: {}", report.applied ? "applied" : "skipped", report.why));
  if (report.bad_tensor != verdict.bad_tensor || report.bad_index != verdict.bad_index)
    stage_.violate("the step named another element that is not finite");
  if (std::memcmp(&report.grad_norm, &verdict.grad_norm, sizeof(double)) != 0 ||
      report.clip_factor != verdict.clip_factor)
    stage_.violate(fmt::format("the step's norm is {} and not {}, its factor {} and not {}",
                               report.grad_norm, verdict.grad_norm, report.clip_factor,
                               verdict.clip_factor));
}

void Run::step(const Op& op) {
  const StepOptions options{.by_group = machine_.groups,
                            .max_norm = op.max_norm,
                            .grad_scale = op.grad_scale,
                            .skip_non_finite = op.skip_non_finite};
  const Result<StepReport> report = stage_.engine->step(options);
  const Code legal = if_usable(leases_.empty() ? Code::ok : Code::invalid);
  if (!stage_.judge("step", report.status(), legal)) {
    if (report.status().code() != Code::invalid) stage_.reference.drop_gradients();
    return;
  }
  const bool any = stage_.reference.has_gradients();
  const Verdict verdict = stage_.reference.step(options);
  compare(*report, verdict);
  if (verdict.applied) ++counts_.steps;
  if (any && !verdict.applied) ++counts_.skipped;
  stage_.steps.push_back(report->done);
  if (verdict.applied) stage_.note_change(report->done);
  if (op.wait) settle();
}

void Run::drop(const Op&) {
  if (stage_.judge("drop_gradients", stage_.engine->drop_gradients(), if_usable(Code::ok)))
    stage_.reference.drop_gradients();
}

Expectations Run::expectations_of(const Lease& lease) const {
  auto all = std::make_shared<std::vector<Expected>>();
  for (std::uint32_t t = 0; t < machine_.tensors.size(); ++t) {
    if (machine_.tensors[t].unit != lease.unit()) continue;
    const Range range{0, machine_.tensors[t].count};
    all->push_back(
        {lease.param(TensorId{t}), stage_.reference.read(TensorId{t}, Kind::param, range)});
  }
  return all;
}

void Run::acquire(const Op& op) {
  const UnitId unit{op.index};
  const bool there = std::ranges::any_of(
      machine_.tensors, [unit](const TensorSpec& spec) { return spec.unit == unit; });
  Code legal = Code::ok;
  if (leases_.size() >= machine_.engine.max_live_leases) legal = Code::unavailable;
  if (!there) legal = Code::invalid;
  Result<Lease> lease = stage_.engine->acquire(unit);
  if (legal != Code::ok) ++counts_.refused;
  if (!stage_.judge("acquire", lease.status(), if_usable(legal))) return;
  const Expectations expected = expectations_of(*lease);
  for (const Expected& each : *expected)
    if (each.view.size != each.bytes.size()) stage_.violate("a lease shows another size");
  leases_.push_back({std::move(*lease), expected});
  if (op.wait) static_cast<void>(look(leases_.back()));
}

// False: its parameters did not come.
bool Run::look(const Held& held) {
  const Status ready = stage_.engine->wait(held.lease.ready());
  if (!ready.ok()) {
    if (!stage_.trouble->crashed() && !stage_.excused())
      stage_.violate(
          fmt::format("a lease failed, and nothing had happened: {}", ready.to_string()));
    return false;
  }
  if (!holds(*held.expected)) stage_.violate("a lease's parameters are wrong");
  return true;
}

// A late reader looks at the parameters after they were released, until its event is over.
void Run::release(const Op& op) {
  if (leases_.empty()) return;
  const auto chosen = leases_.begin() + static_cast<std::ptrdiff_t>(op.index % leases_.size());
  Held held = std::move(*chosen);
  leases_.erase(chosen);
  if (!op.late) {
    static_cast<void>(look(held));
    return held.lease.release();
  }
  const Event computed = stage_.stream->occupy(op.time, "forward", held.lease.ready());
  held.lease.release(stage_.stream->launch(
      [expected = held.expected, wrong = read_wrong_](NativeStream) {
        *wrong = *wrong || !holds(*expected);
        return Status();
      },
      computed));
}

bool Run::frozen_moment(const Op& op) const {
  const bool moment = op.what == Kind::exp_avg || op.what == Kind::exp_avg_sq;
  return moment && !stage_.reference.trainable(TensorId{op.index});
}

void Run::read(const Op& op) {
  const TensorId tensor{op.index};
  const std::size_t bytes = op.range.count * stage_.reference.element_bytes(tensor, op.what);
  std::vector<std::byte>& found = stage_.keep(std::vector<std::byte>(bytes));
  const Status how = stage_.engine->read(tensor, op.what, op.range, MemView(Bytes(found)));
  const Code legal = if_usable(frozen_moment(op) ? Code::invalid : Code::ok);
  if (stage_.judge("read", how, legal) && found != stage_.reference.read(tensor, op.what, op.range))
    stage_.violate("what was read is wrong");
}

bool Run::leased(TensorId root) const {
  return std::ranges::any_of(leases_, [&](const Held& held) {
    for (std::uint32_t t = 0; t < machine_.tensors.size(); ++t)
      if (stage_.reference.root(TensorId{t}) == root &&
          machine_.tensors[t].unit == held.lease.unit())
        return true;
    return false;
  });
}

void Run::write(const Op& op) {
  const TensorId tensor{op.index};
  const ScalarType type =
      op.what == Kind::param ? machine_.tensors[op.index].param : ScalarType::fp32;
  auto& values = stage_.keep(random_elements(op.range.count, type, op.seed));
  if (op.what == Kind::exp_avg_sq)  // of squares
    for (std::size_t i = 3; i < values.size(); i += 4) values[i] &= std::byte{0x7f};
  const bool legal = !frozen_moment(op) && !leased(stage_.reference.root(tensor));
  const Status how = stage_.engine->write(tensor, op.what, op.range, ConstBytes(values));
  const bool refused = how.code() == Code::invalid;
  const bool done = stage_.judge("write", how, if_usable(legal ? Code::ok : Code::invalid));
  if (!done && (!legal || refused)) return;
  if (!done && stage_.refusing && how.code() == Code::poisoned) return;
  stage_.reference.write(tensor, op.what, op.range, values);
  stage_.note_change(done ? Event() : Event::failed(how.ok() ? Status(Code::io, "crash") : how));
  if (!done && !stage_.trouble->crashed()) stage_.refusing = true;  // it may be half done
}

void Run::hash(const Op&) {
  const Result<std::uint64_t> hash = stage_.engine->state_hash();
  if (stage_.judge("state_hash", hash.status(), if_usable(Code::ok)) &&
      *hash != stage_.reference.state_hash())
    stage_.violate("the hash is wrong");
}

void Run::save(const Op&) {
  if (stage_.save()) ++counts_.saves;
}

void Run::load(const Op&) {
  if (!leases_.empty()) {
    const Status how = stage_.engine->load("/disk0/none").status();
    if (how.code() != Code::invalid) stage_.violate("load with leases live: " + how.to_string());
    return;
  }
  if (!stage_.load()) return;
  ++counts_.loads;
  puts_.clear();
}

void Run::settle() {
  for (const Event& done : stage_.steps) static_cast<void>(stage_.engine->wait(done));
  for (const Put& put : puts_) static_cast<void>(stage_.engine->wait(put.in));
  notice();
}

void Run::notice() {
  std::erase_if(stage_.steps, [&](const Event& done) {
    if (!done.done()) return false;
    if (done.status().ok() || stage_.trouble->crashed()) return true;
    if (!stage_.excused())
      stage_.violate(
          fmt::format("a step failed, and nothing had happened: {}", done.status().to_string()));
    if (!std::exchange(stage_.refusing, true)) ++stage_.poisonings;
    return true;
  });
  std::erase_if(puts_, [&](const Put& put) {
    if (!put.in.done()) return false;
    std::ranges::fill(*put.source, std::byte{0xff});  // it is the caller's again
    if (!put.in.status().ok() && !stage_.excused())
      stage_.violate(fmt::format("put_grad failed, and nothing had happened: {}",
                                 put.in.status().to_string()));
    return true;
  });
}

void Run::idle(const Op& op) {
  const Gate never;
  static_cast<void>(stage_.platform->wait(never.event(), op.time));
}

void Run::misuse(const Op& op) {
  ++counts_.refused;
  stage_.judge("a wrong call", wrong_call(op.index, *stage_.engine, machine_),
               if_usable(Code::invalid));
}

void Run::close(Nanoseconds timeout) {
  const Status how = stage_.engine->close(timeout);
  const bool in_time = timeout > Nanoseconds(0);
  if (!how.ok() && (how.code() != Code::timeout || (in_time && !stage_.excused())))
    stage_.violate(fmt::format("close: {}", how.to_string()));
  if (stage_.trouble->crashed()) return;
  stage_.abandoned = stage_.abandoned || !how.ok();
  if (!stage_.abandoned && stage_.held_bytes() != 0) stage_.violate("memory is held after close");
  if (stage_.engine->drop_gradients().code() != Code::invalid)
    stage_.violate("a closed engine takes calls");
  leases_.clear();
  puts_.clear();
  stage_.close_engine();
}

void Run::reopen(const Op& op) {
  close(op.time);
  if (!stage_.trouble->crashed()) stage_.open_engine();
}

void Run::strike(const Op& op) {
  ++counts_.strikes;
  stage_.trouble->arm(op.strike);
}

void Run::start_again() {
  ++counts_.crashes;
  leases_.clear();
  puts_.clear();
  stage_.start_again();
  if (stage_.trouble->crashed()) stage_.violate("crashed again");
}

void Run::end() {
  settle();
  stage_.check_everything();
  if (stage_.violation || stage_.trouble->crashed()) return;
  leases_.clear();
  close(std::chrono::seconds(50));
}

}  // namespace

Outcome run(const Machine& machine, const Program& program) { return Run(machine, program).go(); }

}  // namespace headrace::simulation
