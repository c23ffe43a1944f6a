#include "tests/simulation/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/simulation/random.h"

namespace headrace::simulation {
namespace {

std::filesystem::path checkpoint_folder(std::uint64_t number) {
  return fmt::format("/disk0/checkpoint{}", number);
}

bool reusable(const Machine& machine) { return machine.engine.durability == Durability::reusable; }

bool is_out_of_room(Code code) { return code == Code::out_of_memory || code == Code::out_of_space; }

}  // namespace

Stage::Stage(const Machine& on)
    : machine(on),
      reference(on.tensors),
      disk_(std::make_shared<SimulatedDisk>(on.platform.disk_bytes, on.platform.disk_alignment)) {}

Stage::~Stage() {
  engine.reset();
  stream.reset();
  platform.reset();
}

void Stage::violate(std::string what) {
  if (!violation && !trouble->crashed()) violation = std::move(what);
}

bool Stage::judge(const char* call, const Status& how, Code legal) {
  if (trouble->crashed()) return false;
  if (refusing && how.code() != Code::poisoned) {
    violate(fmt::format("{} on a poisoned engine: {}", call, how.to_string()));
    return false;
  }
  corrupt += how.code() == Code::corrupt ? 1 : 0;
  if (how.code() == Code::poisoned && !std::exchange(refusing, true)) ++poisonings;
  if (how.code() == legal) return how.ok();
  if (how.ok())
    violate(fmt::format("{} was to be refused, and said ok", call));
  else if (!excused())
    violate(fmt::format("{} failed, and nothing had happened: {}", call, how.to_string()));
  return false;
}

std::vector<std::byte>& Stage::keep(std::vector<std::byte> bytes) {
  return kept.emplace_back(std::move(bytes));
}

std::uint64_t Stage::held_bytes() const {
  return platform->device().use(Home::host).used + platform->device().use(Home::device).used;
}

void Stage::open_platform() {
  slab_damaged_ = slab_damaged_ || (trouble && trouble->state_damaged() > 0);
  trouble = std::make_shared<Trouble>(machine.engine.deadline, reusable(machine));
  forgiven = 0;
  abandoned = false;
  SimulationOptions options = machine.platform;
  options.seed = machine.seed + 1'000'003 * platforms_++;
  options.disk = disk_;
  options.wrap_engine = [shared = trouble](std::unique_ptr<IoEngine> disk, Clock& clock) {
    return open_drive(std::move(disk), clock, shared);
  };
  platform = Platform::simulate(std::move(options));
  stream = platform->device().open_stream("user");
}

void Stage::open() {
  open_platform();
  open_engine();
}

void Stage::open_engine() {
  if (!trouble->stuck()) forgiven = trouble->hard();
  refusing = false;
  steps.clear();
  const std::uint64_t before = held_bytes();
  const Status built = build();
  if (built.ok()) return restore();
  finished = true;
  if (trouble->crashed() || slab_excused()) return;
  if (!is_out_of_room(built.code()) || !(machine.tight || abandoned)) {
    if (!excused()) violate(fmt::format("no engine: {}", built.to_string()));
    return;
  }
  ++unbuildable;
  engine.reset();
  if (held_bytes() != before) violate("a refused engine holds memory");
}

Status Stage::build() {
  HEADRACE_ASSIGN(engine, Engine::open(*platform, machine.engine));
  for (const TensorSpec& spec : machine.tensors) HEADRACE_TRY(engine->add(spec).status());
  return engine->seal();
}

bool Stage::checkpoint_damaged() const {
  return std::ranges::any_of(saved_, [](const Saved& saved) { return saved.damaged; });
}

// Its owner could not be closed, it was never whole, or a fault has damaged it.
bool Stage::slab_excused() const {
  return reusable(machine) &&
         (abandoned || changes_.empty() || slab_damaged_ || trouble->state_damaged() > 0);
}

void Stage::note_change(const Event& done) {
  if (!reusable(machine)) return;
  changes_.push_back({reference, done});
  changes_.back().state.drop_gradients();
  while (changes_.size() > 1 && changes_[1].done.done() && changes_[1].done.status().ok())
    changes_.pop_front();
}

bool Stage::is_as_reference() {
  for (std::uint32_t t = 0; t < machine.tensors.size(); ++t) {
    const TensorSpec& spec = machine.tensors[t];
    if (spec.alias_of) continue;
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param}) {
      if (!spec.trainable && kind != Kind::master && kind != Kind::param) continue;
      const auto expected = reference.read(TensorId{t}, kind, {0, spec.count});
      auto& found = keep(std::vector<std::byte>(expected.size()));
      if (!engine->read(TensorId{t}, kind, {0, spec.count}, MemView(Bytes(found))).ok() ||
          found != expected)
        return false;
    }
    if (engine->steps_of(TensorId{t}).value() != reference.steps_of(TensorId{t})) return false;
  }
  return true;
}

bool Stage::take_up() {
  if (!engine->stats().reopened) {
    const bool any =
        std::ranges::any_of(machine.tensors, [](const TensorSpec& spec) { return spec.count > 0; });
    if (any && !changes_.empty() && !slab_damaged_) violate("a reusable slab was not taken up");
    return false;
  }
  ++reopened;
  if (changes_.empty()) changes_.push_back({Reference(machine.tensors), Event()});
  for (std::size_t left = changes_.size(); left > 0; --left) {
    reference = changes_[left - 1].state;
    const bool same = is_as_reference();
    if (trouble->crashed()) return false;  // while it was looked at: the next one looks again
    if (!same) continue;
    reference.drop_gradients();
    changes_ = {{reference, Event()}};
    return true;
  }
  finished = true;
  if (!trouble->crashed() && !excused() && !slab_damaged_ && trouble->state_damaged() == 0)
    violate("a reusable slab gave back a state that is none of those it may");
  return true;
}

void Stage::restore() {
  if (reusable(machine) && take_up()) return;
  if (!saved_.empty() && load()) return;
  if (ended() || trouble->crashed()) return;
  if (!saved_.empty()) ++folders_;  // none there, or it cannot be read
  saved_.clear();
  none_saved_ = true;
  const Status written = write_first_weights();
  if (written.ok() || trouble->crashed()) return;
  finished = true;
  if (!excused()) violate(fmt::format("no first weights: {}", written.to_string()));
}

Status Stage::write_first_weights() {
  reference = Reference(machine.tensors);
  note_change({});
  for (std::uint32_t t = 0; t < machine.tensors.size(); ++t) {
    const TensorSpec& spec = machine.tensors[t];
    if (spec.alias_of) continue;
    const auto& weights = keep(random_elements(spec.count, ScalarType::fp32, machine.seed + t));
    const Range all{0, spec.count};
    const Status how = engine->write(TensorId{t}, Kind::master, all, ConstBytes(weights));
    reference.write(TensorId{t}, Kind::master, all, weights);
    note_change(how.ok() ? Event() : Event::failed(how));
    HEADRACE_TRY(how);
  }
  return {};
}

void Stage::close_engine() {
  engine.reset();
  steps.clear();
}

void Stage::start_again() {
  finished = false;
  close_engine();
  stream.reset();
  platform.reset();
  kept.clear();
  disk_->close_all();
  open();
  if (!ended()) check_everything();
}

// An error may come after the checkpoint is visible: then either may be in the folder.
bool Stage::save() {
  const std::uint64_t id = ++last_id_, damage = trouble->checkpoints_damaged();
  std::vector<std::byte> extra(sizeof id);
  std::memcpy(extra.data(), &id, sizeof id);
  const bool over_damaged = checkpoint_damaged();
  const Status how = engine->save(checkpoint_folder(folders_), extra);
  if (how.ok()) saved_.clear();
  if (how.code() != Code::poisoned)
    saved_.push_back({id, reference, trouble->checkpoints_damaged() > damage});
  none_saved_ = none_saved_ && !how.ok();
  if (over_damaged && how.code() == Code::corrupt) return false;
  if (machine.tight && how.code() == Code::out_of_space) return false;
  return judge("save", how, refusing ? Code::poisoned : Code::ok);
}

bool Stage::load() {
  const std::uint64_t struck = trouble->hard();
  const Result<std::vector<std::byte>> loaded = engine->load(checkpoint_folder(folders_));
  const bool may_be_done = !loaded.ok() && loaded.status().code() == Code::poisoned;
  if (reusable(machine) && (may_be_done || trouble->crashed()))
    for (const Saved& saved : saved_)
      changes_.push_back({saved.state, Event::failed(Status(Code::io, "perhaps"))});
  if (trouble->crashed()) return false;
  if (!loaded.ok()) {
    const Status how = loaded.status();
    corrupt += how.code() == Code::corrupt ? 1 : 0;
    if (how.code() == Code::poisoned) refusing = true;
    const bool none = none_saved_ && how.code() == Code::invalid;
    if (!none && !checkpoint_damaged() && !excused())
      violate(fmt::format("load failed, and nothing had happened: {}", how.to_string()));
    return false;
  }
  std::uint64_t id = 0;
  std::memcpy(&id, loaded->data(), std::min(loaded->size(), sizeof id));
  const auto found = std::ranges::find(saved_, id, &Saved::id);
  if (found == saved_.end()) {
    violate(fmt::format("loaded checkpoint {}, which is not the last one", id));
    return false;
  }
  reference = found->state;
  reference.drop_gradients();
  saved_ = {*found};
  none_saved_ = false;
  refusing = false;
  steps.clear();
  if (!trouble->stuck()) forgiven = struck;
  note_change({});
  return true;
}

void Stage::check_everything() {
  for (std::uint32_t t = 0; t < machine.tensors.size() && !ended(); ++t) {
    const TensorSpec& spec = machine.tensors[t];
    if (spec.alias_of) continue;
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param}) {
      if (!spec.trainable && kind != Kind::master && kind != Kind::param) continue;
      const Range all{0, spec.count};
      const auto expected = reference.read(TensorId{t}, kind, all);
      auto& found = keep(std::vector<std::byte>(expected.size()));
      const Status how = engine->read(TensorId{t}, kind, all, MemView(Bytes(found)));
      if (!judge("read", how, refusing ? Code::poisoned : Code::ok)) continue;
      if (found != expected) violate(fmt::format("{} of t{} is wrong", name_of(kind), t));
    }
    const Result<std::uint64_t> counted = engine->steps_of(TensorId{t});
    if (refusing) continue;
    if (!counted.ok() || *counted != reference.steps_of(TensorId{t}))
      violate(fmt::format("t{} has had {} steps", t, counted.ok() ? *counted : 0));
  }
}

}  // namespace headrace::simulation
