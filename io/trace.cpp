#include "io/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

namespace headrace {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

// Spans of one track, sorted by begin, spread over as few rows as keep each row free of overlap.
class Rows {
 public:
  int place(Nanoseconds begin, Nanoseconds end) {
    const auto free = std::find_if(ends_.begin(), ends_.end(),
                                   [&](Nanoseconds row_end) { return row_end <= begin; });
    if (free != ends_.end()) {
      *free = end;
      return static_cast<int>(free - ends_.begin());
    }
    ends_.push_back(end);
    return static_cast<int>(ends_.size()) - 1;
  }

 private:
  std::vector<Nanoseconds> ends_;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Which row of which track has which number in the file; a row's first span introduces it.
class Threads {
 public:
  int number(std::FILE* file, const std::pair<std::uint32_t, int>& row, const std::string& track) {
    const int fresh = static_cast<int>(numbers_.size()) + 1;
    const auto [known, added] = numbers_.try_emplace(row, fresh);
    if (added)
      fmt::print(file,
                 ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\","
                 "\"args\":{{\"name\":{}}}}}",
                 fresh, json_string(track));
    return known->second;
  }

 private:
  std::map<std::pair<std::uint32_t, int>, int> numbers_;
};

}  // namespace

std::uint32_t Trace::intern(std::string_view text) {
  const auto known = std::find(strings_.begin(), strings_.end(), text);
  if (known == strings_.end()) {
    strings_.emplace_back(text);
    return static_cast<std::uint32_t>(strings_.size() - 1);
  }
  return static_cast<std::uint32_t>(known - strings_.begin());
}

void Trace::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (records_.size() >= max_spans_) {
    ++dropped_;
    return;
  }
  records_.push_back({intern(span.track), intern(span.name), span.begin, span.end, span.bytes});
}

std::size_t Trace::size() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

std::vector<Span> Trace::spans(Nanoseconds from, Nanoseconds to) const {
  const std::lock_guard lock(mutex_);
  std::vector<Span> found;
  for (const Record& r : records_)
    if (r.begin < to && r.end > from)
      found.push_back({strings_[r.track], strings_[r.name], r.begin, r.end, r.bytes});
  return found;
}

void Trace::write_spans(std::FILE* file) const {
  std::vector<Record> records = records_;
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.begin < b.begin; });
  const Nanoseconds zero = records.empty() ? Nanoseconds(0) : records.front().begin;
  std::map<std::uint32_t, Rows> rows;
  Threads threads;
  for (const Record& r : records) {
    const int row = rows[r.track].place(r.begin, r.end);
    const int thread = threads.number(file, {r.track, row}, strings_[r.track]);
    fmt::print(file,
               ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f}",
               thread, json_string(strings_[r.name]), microseconds(r.begin - zero),
               microseconds(r.end - r.begin));
    if (r.bytes > 0) fmt::print(file, ",\"args\":{{\"bytes\":{}}}", r.bytes);
    fmt::print(file, "}}");
  }
}

Status Trace::write(const std::filesystem::path& path) const {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "we"));
  if (!file) return Status(Code::io, fmt::format("cannot create the trace {}", path.string()));
  const std::lock_guard lock(mutex_);
  fmt::print(file.get(),
             "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped_spans\":{}}},"
             "\"traceEvents\":[\n{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\","
             "\"args\":{{\"name\":\"headrace\"}}}}",
             dropped_);
  write_spans(file.get());
  fmt::print(file.get(), "\n]}}\n");
  const bool failed = std::ferror(file.get()) != 0 || std::fflush(file.get()) != 0;
  return failed ? Status(Code::io, fmt::format("cannot write the trace {}", path.string()))
                : Status();
}

}  // namespace headrace
