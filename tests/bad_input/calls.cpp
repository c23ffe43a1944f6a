// Everything that a caller may do wrong with a sealed engine.
#include <limits>

#include "tests/bad_input/tables.h"

namespace headrace::bad_input {
namespace {

using namespace small;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr TensorId kUnknown{99};

using List = std::vector<Wrong>;

Status add_late(Engine& e) { return e.add({.name = "late"}).status(); }
Status seal_again(Engine& e) { return e.seal(); }

Status load_under_a_lease(Engine& e) {
  const Lease lease = e.acquire(UnitId{2}).value();
  return e.load("/nowhere").status();
}

Status acquire_too_much(Engine& e) {
  std::vector<Lease> held;
  for (int i = 0; i < 4; ++i) held.push_back(e.acquire(UnitId{0}).value());
  return e.acquire(UnitId{1}).status();
}

Status save_too_much(Engine& e) {
  return e.save("/disk0/checkpoint", std::vector<std::byte>(kMiB + 1));
}

List wrong_calls() {
  return {
      {"add", add_late, {"late", "seal()"}},
      {"seal twice", seal_again, {"seal()"}},
      {"acquire", [](Engine& e) { return e.acquire(UnitId{9}).status(); }, {"unit 9"}},
      {"steps", [](Engine& e) { return e.steps_of(kUnknown).status(); }, {"tensor 99"}},
      {"load under a lease", load_under_a_lease, {"unit 2"}},
      {"load", [](Engine& e) { return e.load("/disk0/no").status(); }, {"/disk0/no", "exist"}},
      {"load what is no checkpoint",
       [](Engine& e) { return e.load("/disk0").status(); },
       {"/disk0", "manifest", "own folder"}},
      {"save without a name", [](Engine& e) { return e.save("/"); }, {"\"/\"", "a folder below"}},
      {"save with too much", save_too_much, {"1048577", "1048576", "a file of its own"}},
      {"a lease too many",
       acquire_too_much,
       {"unit 1", "4 of 4", "unit 0 (4 leases)", "max_live_leases"},
       Code::unavailable},
  };
}

struct Access {
  const char* what;
  TensorId tensor;
  Kind kind;
  Range range;
  std::size_t bytes;
  std::vector<const char*> mentions;
};

List wrong_accesses() {
  const Access wrong[] = {
      {"unknown tensor", kUnknown, Kind::master, {0, 1}, 4, {"tensor 99", "8 were added"}},
      {"past the end", kNorm, Kind::master, {1, 300}, 1200, {"norm", "300", "[1, 1 + 300)"}},
      {"overflow", kNorm, Kind::exp_avg, {200, ~std::uint64_t{0}}, 4, {"norm", "outside"}},
      {"size", kTable, Kind::param, {0, 10}, 40, {"table", "20 bytes", "40"}},
      {"frozen", kFrozen, Kind::exp_avg, {0, 1}, 4, {"frozen", "exp_avg"}},
      {"unknown kind", kNorm, static_cast<Kind>(7), {0, 1}, 4, {"kind 7"}},
  };
  List all;
  for (const Access& a : wrong) {
    const auto reading = [a](Engine& e) {
      return read_some(e, a.tensor, a.kind, a.range, a.bytes);
    };
    const auto writing = [a](Engine& e) {
      return write_some(e, a.tensor, a.kind, a.range, a.bytes);
    };
    all.push_back({a.what, reading, a.mentions});
    all.push_back({a.what, writing, a.mentions});
  }
  return all;
}

Status put_bytes(Engine& engine, TensorId tensor, std::size_t bytes, ScalarType type) {
  const std::vector<std::byte> from(bytes);
  return engine.wait(engine.put_grad(tensor, ConstMemView(ConstBytes(from)), type));
}

Status put_device_memory(Engine& engine) {
  static std::byte never_touched[20'000];
  const ConstMemView view(never_touched, sizeof never_touched, Home::device);
  return engine.wait(engine.put_grad(kTable, view, ScalarType::fp32));
}

List wrong_gradients() {
  struct Put {
    TensorId tensor;
    std::size_t bytes;
    ScalarType type;
    std::vector<const char*> mentions;
  };
  const Put wrong[] = {
      {kUnknown, 4, ScalarType::fp32, {"tensor 99"}},
      {kTable, 20'000, ScalarType::bf16, {"table", "10000", "20000"}},
      {kTied, 10'000, ScalarType::fp32, {"tied", "10000", "20000"}},
      {kTable, 20'000, static_cast<ScalarType>(9), {"table", "type"}},
      {kFrozen, 2'800, ScalarType::fp32, {"frozen"}},
      {kOnce, 4'000, ScalarType::fp32, {"once", "16 bits", "TensorSpec.grad"}},
  };
  List all = {{"device memory", put_device_memory, {"table", "device memory"}}};
  for (const Put& p : wrong)
    all.push_back({"put_grad", [p](Engine& e) { return put_bytes(e, p.tensor, p.bytes, p.type); },
                   p.mentions});
  return all;
}

Status step_under_leases(Engine& engine) {
  const Lease first = engine.acquire(UnitId{1}).value();
  const Lease again = engine.acquire(UnitId{1}).value();
  const Lease other = engine.acquire(UnitId{3}).value();
  return engine.step(step_options()).status();
}

Wrong wrong_step(const char* what, const std::function<void(StepOptions&)>& change) {
  return {what,
          [change](Engine& engine) {
            StepOptions options = step_options();
            change(options);
            return engine.step(options).status();
          },
          {what}};
}

// A step in which one number of a group is wrong.
Wrong wrong_group(std::size_t group, const char* what, const std::function<void(AdamW&)>& change) {
  return {what,
          [group, change](Engine& engine) {
            std::array<AdamW, 2> groups = kGroups;
            change(groups[group]);
            StepOptions options = step_options();
            options.by_group = groups;
            return engine.step(options).status();
          },
          {what, group == 0 ? "group 0" : "group 1"}};
}

List wrong_steps() {
  List all = {
      {"step under leases", step_under_leases, {"unit 1 (2 leases)", "unit 3"}},
      wrong_step("by_group", [](StepOptions& o) { o.by_group = o.by_group.first(1); }),
      wrong_group(0, "lr", [](AdamW& a) { a.lr = kNan; }),
      wrong_group(1, "lr", [](AdamW& a) { a.lr = -1; }),
      wrong_group(1, "lr", [](AdamW& a) { a.lr = kInfinity; }),
      wrong_group(0, "beta", [](AdamW& a) { a.beta1 = 1; }),
      wrong_group(0, "beta", [](AdamW& a) { a.beta1 = -0.1; }),
      wrong_group(1, "beta", [](AdamW& a) { a.beta2 = kNan; }),
      wrong_group(0, "eps", [](AdamW& a) { a.eps = -1e-8; }),
      wrong_group(1, "eps", [](AdamW& a) { a.eps = kNan; }),
      wrong_group(0, "weight_decay", [](AdamW& a) { a.weight_decay = -0.1; }),
      wrong_group(1, "weight_decay", [](AdamW& a) { a.weight_decay = kInfinity; }),
  };
  for (const double norm : {-1.0, kNan, kInfinity})
    all.push_back(wrong_step("max_norm", [=](StepOptions& o) { o.max_norm = norm; }));
  for (const double scale : {0.0, -2.0, kNan, kInfinity})
    all.push_back(wrong_step("grad_scale", [=](StepOptions& o) { o.grad_scale = scale; }));
  return all;
}

}  // namespace

std::vector<small::Wrong> calls() {
  List all;
  for (List& list : std::array{wrong_calls(), wrong_accesses(), wrong_gradients(), wrong_steps()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace headrace::bad_input
