// SPDX-License-Identifier: Apache-2.0
// Detection of the host, and the text and JSON forms of the record.
#include "target/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "base/define_type.h"
#include "base/diagnostic.h"
#include "base/matrix_permission.h"
#include "base/nearest.h"
#include "target/target_kind.h"

namespace tenon {
namespace {

// What code generation or scheduling can make use of, in /proc/cpuinfo's spelling. AArch64 multiplies and
// adds in one rounding always.
constexpr std::string_view arm_features[] = {"asimd", "asimdhp", "asimddp", "i8mm", "bf16"};
// RISC-V: the vector extension, whose registers have 128 bits or more. The rest is RV64GC, which Linux needs.
constexpr std::string_view riscv_features[] = {"v"};
constexpr std::string_view x86_features[] = {
    "sse3",        "ssse3",       "sse4_1",      "sse4_2",   "popcnt",   "avx",      "avx2",     "fma",
    "f16c",        "bmi1",        "bmi2",        "avx512f",  "avx512bw", "avx512cd", "avx512dq", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"};
constexpr std::string_view v2[] = {"sse3", "ssse3", "sse4_1", "sse4_2", "popcnt"};
constexpr std::string_view v3[] = {"avx", "avx2", "fma", "f16c", "bmi1", "bmi2"};
constexpr std::string_view v4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

std::string read_first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int64_t parse_size(const std::string& text) {  // "48K", "1024K", "32M"
  if (text.empty()) return 0;
  const int64_t n = std::strtoll(text.c_str(), nullptr, 10);
  return text.back() == 'K' ? n << 10 : text.back() == 'M' ? n << 20 : n;
}

struct CpuInfo {
  std::set<std::string> flags;
  int family = 0, model = 0;
  std::string vendor;
};

CpuInfo read_cpuinfo() {
  CpuInfo info;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (key == "flags") {
      std::istringstream words(value);
      for (std::string w; words >> w;) info.flags.insert(w);
    }
    if (key == "cpu family") info.family = std::atoi(value.c_str());
    if (key == "model") info.model = std::atoi(value.c_str());
    if (key == "vendor_id") info.vendor = value;
  }
  if (info.flags.count("pni")) info.flags.insert("sse3");
  return info;
}

/// The name only tunes: what may be used is what `features` lists, because hypervisors mask features.
std::string tuning_name(const CpuInfo& info, const TargetNode& t) {
  if (info.vendor == "AuthenticAMD") {
    if (info.family >= 26) return "znver5";
    if (info.family == 25) return t.has("avx512f") ? "znver4" : "znver3";
    if (info.family == 23) return "znver2";
  }
  if (info.vendor == "GenuineIntel") {
    if (info.flags.count("amx_tile")) return "sapphirerapids";
    if (t.has("avx512_vnni")) return "icelake-server";
    if (t.has("avx512f")) return "skylake-avx512";
    if (t.has("avx2")) return "haswell";
  }
  return "x86-64";
}

/// A kind of processor by the first word of its triples.
struct Architecture {
  std::string_view name, triple;
  std::span<const std::string_view> features;
};
constexpr Architecture architectures[] = {{"x86_64", "x86_64-unknown-linux-gnu", x86_features},
                                          {"aarch64", "aarch64-unknown-linux-gnu", arm_features},
                                          {"riscv64", "riscv64-unknown-linux-gnu", riscv_features}};
/// Null for one that there is no code generator for.
const Architecture* architecture_of(std::string_view triple) {
  const std::string_view name = triple.empty() ? "x86_64" : triple.substr(0, triple.find('-'));
  const auto it = std::ranges::find(architectures, name, &Architecture::name);
  return it == std::end(architectures) ? nullptr : it;
}

/// What follows from the features.
void derive(TargetNode* t) {
  if (!architecture_of(t->triple) || architecture_of(t->triple)->name != "x86_64") {
    t->fma = true;
    t->vector_bits = 128;
    t->vector_registers = 32;
    return;
  }
  t->fma = t->has("fma") || t->has("avx512f");
  t->vector_bits = t->has("avx512vl") ? 512 : t->has("avx2") ? 256 : 128;
  t->vector_registers = t->has("avx512vl") ? 32 : 16;
}

void add_level(TargetNode* t, int level) {
  for (std::string_view f : v2)
    if (level >= 2) t->features.push_back(std::string(f));
  for (std::string_view f : v3)
    if (level >= 3) t->features.push_back(std::string(f));
  for (std::string_view f : v4)
    if (level >= 4) t->features.push_back(std::string(f));
}

std::set<std::string, std::less<>>& library_names() {
  static auto* names = new std::set<std::string, std::less<>>;
  return *names;
}

/// A record may describe any machine, but not one that cannot be: decisions divide by what stands in it.
void check_record(const TargetNode& t, const std::string& where, DiagnosticList* problems) {
  auto wrong = [&](std::string what) { problems->add(Diagnostic{"T0901", std::move(what), where, {}, {}}); };
  auto between = [&](const char* name, auto value, decltype(value) low, decltype(value) high) {
    if (!(value >= low && value <= high))
      wrong(fmt::format("`{}` is {}, not between {} and {}", name, value, low, high));
  };
  if (!find_target_kind(t.kind)) wrong(fmt::format("target `{}` is not built into this version", t.kind));
  const Architecture* architecture = architecture_of(t.triple);
  if (!architecture) {
    wrong(fmt::format("there is no code generator for `{}`", t.triple));
    architecture = &architectures[0];
  }
  const bool x86 = architecture == &architectures[0];
  if (t.cpu.size() > 64 || t.cpu.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != t.cpu.npos)
    wrong("`cpu` is no name of a processor");
  for (const std::string& f : t.features)
    if (std::ranges::find(architecture->features, f) == architecture->features.end())
      wrong(
          fmt::format("there is no feature `{}`{}", f, x86 ? "" : fmt::format(" of {}", architecture->name)));
  for (const std::string& l : t.libs)
    if (!library_names().count(l)) wrong(fmt::format("no operator is computed by a library `{}`", l));
  const int64_t widest = t.has("avx512f") ? 512 : t.has("avx2") || t.has("avx") ? 256 : 128;
  if (t.vector_bits != 128 && t.vector_bits != 256 && t.vector_bits != 512)
    wrong(fmt::format("`vector_bits` is {}, not 128, 256 or 512", t.vector_bits));
  else if (t.vector_bits > widest)
    wrong(fmt::format("`vector_bits` is {}, but the features allow {}", t.vector_bits, widest));
  if (t.vector_registers != 16 && t.vector_registers != 32)
    wrong(fmt::format("`vector_registers` is {}, not 16 or 32", t.vector_registers));
  else if (t.vector_registers == 32 && x86 && !t.has("avx512f"))
    wrong("`vector_registers` is 32, but the features have 16");
  if (t.fma && x86 && !t.has("fma") && !t.has("avx512f")) wrong("`fma` is true, but the features lack it");
  between("l1d_bytes", t.l1d_bytes, 1 << 10, 1 << 30);
  between("l2_bytes", t.l2_bytes, t.l1d_bytes, int64_t(1) << 36);
  between("l3_bytes", t.l3_bytes, 0, int64_t(1) << 40);
  between("line_bytes", t.line_bytes, 16, 1024);
  if (t.line_bytes > 0 && (t.line_bytes & (t.line_bytes - 1)) != 0) wrong("`line_bytes` is no power of two");
  between("cores", t.cores, 1, 4096);
  between("fma_ports", t.fma_ports, 1, 16);
  between("bf16_dots", t.bf16_dots, 0.01, 16.0);
  between("load_ports", t.load_ports, 1, 16);
  between("fma_latency", t.fma_latency, 1, 64);
  between("l2_bandwidth", t.l2_bandwidth, 1.0, 4096.0);
  between("l3_bandwidth", t.l3_bandwidth, 0.1, 4096.0);
  between("memory_bandwidth", t.memory_bandwidth, 0.01, 4096.0);
  between("fork_ns", t.fork_ns, 0, 1'000'000'000);
}

Target record_from_json(std::string_view text, const std::string& where);

Target read_record(const std::string& path) {
  std::error_code ec;
  const auto size = std::filesystem::file_size(path, ec);
  std::ifstream in(path, std::ios::binary);
  if (ec || !in)
    fail("T3001", "the target record cannot be read" + (ec ? ": " + ec.message() : ""), path, {},
         ErrorKind::io);
  if (size > size_t(1) << 20)
    fail("T0901", "a target record is a small JSON file", path, {}, ErrorKind::usage);
  std::ostringstream text;
  text << in.rdbuf();
  return record_from_json(text.str(), path);
}

struct NamedCpu {
  std::string_view name;
  int level;  ///< of x86-64
  std::initializer_list<std::string_view> more;
  std::string_view architecture = "x86_64";
};
const NamedCpu named_cpus[] = {
    {"x86-64", 1, {}},
    {"x86-64-v2", 2, {}},
    {"x86-64-v3", 3, {}},
    {"x86-64-v4", 4, {}},
    {"haswell", 3, {}},
    {"znver2", 3, {}},
    {"znver3", 3, {}},
    {"znver4", 4, {"avx512_vnni", "avx512_bf16"}},
    {"znver5", 4, {"avx512_vnni", "avx512_bf16", "avx_vnni"}},
    {"skylake-avx512", 4, {}},
    {"icelake-server", 4, {"avx512_vnni"}},
    {"sapphirerapids",
     4,
     {"avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}},
    {"cortex-a72", 0, {"asimd"}, "aarch64"},
    {"cortex-a76", 0, {"asimd", "asimdhp", "asimddp"}, "aarch64"},
    {"neoverse-n1", 0, {"asimd", "asimdhp", "asimddp"}, "aarch64"},
    {"neoverse-v1", 0, {"asimd", "asimdhp", "asimddp", "i8mm", "bf16"}, "aarch64"},
    {"generic-rv64", 0, {}, "riscv64"}};

/// What is known of a processor beyond its features; the defaults are for all others.
void tune_for(TargetNode* t) {
  // Sapphire Rapids begins one dot product of bfloat16 in two cycles (measured: 116 Gop/s beside 227 of
  // float32, docs/precision.md); its third cache: docs/cost_model.md.
  const bool sapphire_rapids = t->cpu == "sapphirerapids";
  t->bf16_dots = sapphire_rapids ? 0.5 : TargetNode().bf16_dots;
  t->l3_bandwidth = sapphire_rapids ? 8 : TargetNode().l3_bandwidth;
}

}  // namespace

bool TargetNode::has(std::string_view feature) const {
  for (size_t i = 0; i < features.size(); ++i)
    if (features[i] == feature) return true;
  return false;
}

bool TargetNode::has_library(std::string_view name) const {
  return std::any_of(libs.begin(), libs.end(), [&](const std::string& l) { return l == name; });
}

Target host_target() {
  static const Target host = [] {
    Target target = make<TargetNode>();
    TargetNode* t = target.edit();
    t->kind = host_kind();
    t->triple = "x86_64-unknown-linux-gnu";
    const CpuInfo info = read_cpuinfo();
    const bool matrices = info.flags.count("amx_tile") && may_use_matrix_registers();
    for (std::string_view f : x86_features)
      if (info.flags.count(std::string(f)) && (matrices || !f.starts_with("amx_")))
        t->features.push_back(std::string(f));
    derive(t);
    t->cpu = tuning_name(info, *t);
    tune_for(t);
    for (int i = 0; i < 8; ++i) {
      const std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
      const int64_t size = parse_size(read_first_line(dir + "size"));
      if (!size) continue;
      const std::string level = read_first_line(dir + "level"), type = read_first_line(dir + "type");
      if (level == "1" && type == "Data") t->l1d_bytes = size;
      if (level == "2") t->l2_bytes = size;
      if (level == "3") t->l3_bytes = size;
      if (const int64_t line = parse_size(read_first_line(dir + "coherency_line_size"))) t->line_bytes = line;
    }
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
      std::set<std::string> cores;  // one hardware thread of each physical core
      for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &cpus)) {
          const std::string siblings =
              read_first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i));
          cores.insert(siblings.empty() ? std::to_string(i) : siblings);
        }
      t->cores = std::max<int64_t>(1, int64_t(cores.size()));
    }
    return target;
  }();
  return host;
}

namespace {

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> out;
  for (const TargetKind* k : target_kinds()) out.push_back(k->name);
  return out;
}

void set_processor(Target& target, const std::string& name) {
  if (name == "native") return;
  if (name.find(',') != name.npos)
    fail("T0901", fmt::format("one processor is meant here, not `{}`", name), {},
         "artifacts have code for several: tenon compile MODEL -o model.so", ErrorKind::usage);
  const Architecture* architecture = architecture_of(target->triple);
  const NamedCpu* cpu = nullptr;
  std::vector<std::string_view> all{"native"};
  for (const NamedCpu& c : named_cpus) {
    if (!architecture || c.architecture != architecture->name) continue;
    if (c.name == name) cpu = &c;
    all.push_back(c.name);
  }
  if (!cpu)
    fail("T0901", fmt::format("unknown CPU `{}`", name), {}, did_you_mean(name, all, "known: "),
         ErrorKind::usage);
  TargetNode* t = target.edit();
  t->cpu = name;
  t->features = {};
  add_level(t, cpu->level);
  for (std::string_view f : cpu->more) t->features.push_back(std::string(f));
  derive(t);
  tune_for(t);
}

/// Another kind of processor, with what every one of the kind has.
void set_triple(Target& target, const std::string& triple) {
  const Architecture* architecture = architecture_of(triple);
  std::vector<std::string_view> all;
  for (const Architecture& a : architectures) all.push_back(a.triple);
  const bool linux_alone = architecture && triple.find("-linux") != triple.npos;
  if (!linux_alone)
    fail("T0901", fmt::format("there is no code generator for `{}`", triple), {},
         did_you_mean(triple, all, "triples: "), ErrorKind::usage);
  TargetNode* t = target.edit();
  t->triple = architecture->triple;
  t->features = {};
  t->cpu = architecture->name == "x86_64"    ? "x86-64"
           : architecture->name == "aarch64" ? "generic"
                                             : "generic-rv64";
  if (architecture->name == "aarch64") t->features.push_back("asimd");
  derive(t);
  tune_for(t);
}

/// The feature that one is built upon, which its processors have, too; "" for none.
std::string_view base_of(std::string_view feature) {
  static const std::map<std::string_view, std::string_view> bases{{"avx", "sse4_2"},
                                                                  {"avx2", "avx"},
                                                                  {"fma", "avx"},
                                                                  {"f16c", "avx"},
                                                                  {"avx_vnni", "avx2"},
                                                                  {"avx512f", "avx2"},
                                                                  {"avx512bw", "avx512f"},
                                                                  {"avx512cd", "avx512f"},
                                                                  {"avx512dq", "avx512f"},
                                                                  {"avx512vl", "avx512f"},
                                                                  {"avx512_vnni", "avx512f"},
                                                                  {"avx512_bf16", "avx512bw"},
                                                                  {"avx512_fp16", "avx512bw"},
                                                                  {"amx_int8", "amx_tile"},
                                                                  {"amx_bf16", "amx_tile"},
                                                                  {"asimdhp", "asimd"},
                                                                  {"asimddp", "asimd"},
                                                                  {"i8mm", "asimd"},
                                                                  {"bf16", "asimd"}};
  const auto it = bases.find(feature);
  return it == bases.end() ? std::string_view() : it->second;
}
bool built_upon(std::string_view feature, std::string_view base) {
  while (!feature.empty() && feature != base) feature = base_of(feature);
  return !feature.empty();
}

/// "+NAME" adds a feature and what it is built upon, "-NAME" takes one away and what is built upon it.
void change_features(Target& target, const std::string& list) {
  std::istringstream words(list);
  const Architecture* architecture = architecture_of(target->triple);
  CHECK(architecture, "a target of no known kind of processor");
  for (std::string word; std::getline(words, word, ',');) {
    const std::string name = word.substr(word.empty() ? 0 : 1);
    const bool known = std::ranges::find(architecture->features, name) != architecture->features.end();
    if (!known || (word[0] != '+' && word[0] != '-'))
      fail("T0901", fmt::format("`{}` adds or takes away no feature", word), {},
           fmt::format("write +NAME or -NAME, of {}", fmt::join(architecture->features, ", ")),
           ErrorKind::usage);
    std::vector<std::string> features = target->features.vec();
    if (word[0] == '-') {
      std::erase_if(features, [&](const std::string& f) { return built_upon(f, name); });
    } else {
      for (std::string_view f = name; !f.empty(); f = base_of(f))
        if (std::ranges::find(features, f) == features.end()) features.emplace_back(f);
    }
    TargetNode* t = target.edit();
    t->features = {};
    for (const std::string& f : features) t->features.push_back(f);
    derive(t);
  }
}

void add_libraries(Target& target, const std::string& list) {
  if (list.empty()) fail("T0901", "`-libs=` names no library", {}, "leave it out", ErrorKind::usage);
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) continue;
    if (!library_names().count(name))
      fail("T0901", fmt::format("no operator is computed by a library `{}`", name), {},
           did_you_mean(name, library_names(), "libraries: "), ErrorKind::usage);
    target.edit()->libs.push_back(name);
  }
}

}  // namespace

void register_target_library(const std::string& name) { library_names().insert(name); }

std::vector<TargetOption> processor_options() {
  return {{"mtriple", "another kind of processor: aarch64-linux-gnu, riscv64-linux-gnu", set_triple},
          {"mcpu",
           "the processor to compile for: native, x86-64-v3, znver4, cortex-a76, …; several for an artifact",
           set_processor},
          {"mattr", "features with and without: +asimddp, +v, -avx512f, …", change_features},
          {"libs", "libraries that may compute operators: cblas, dnnl (oneDNN)", add_libraries}};
}

Target parse_target(std::string_view text) {
  if (text.starts_with("{")) return target_from_json(text);
  if (text.starts_with("@")) return read_record(std::string(text.substr(1)));
  if (text.ends_with(".json") && text.find(' ') == text.npos) return read_record(std::string(text));
  std::istringstream words{std::string(text)};
  std::string kind, word;
  words >> kind;
  Target target = host_target();
  if (kind.empty() || kind == "host" || kind == "cpu") kind = target->kind;
  const TargetKind* known = find_target_kind(kind);
  if (!known)
    fail("T0901", fmt::format("target `{}` is not built into this version", kind), {},
         did_you_mean(kind, kind_names(), "targets: "), ErrorKind::usage);
  target.edit()->kind = kind;
  std::set<std::string> given;
  while (words >> word) {
    const size_t equals = word.find('=');
    const auto option = std::ranges::find_if(known->options, [&](const TargetOption& o) {
      return word[0] == '-' && equals != word.npos && o.name == std::string_view(word).substr(1, equals - 1);
    });
    if (option == known->options.end()) {
      std::vector<std::string> all;
      for (const TargetOption& o : known->options) all.push_back("-" + o.name + "=");
      fail("T0901", fmt::format("unknown word `{}` in target `{}`", word, text), {},
           did_you_mean(word.substr(0, equals == word.npos ? equals : equals + 1), all,
                        all.empty() ? "this target has no options" : "its options are "),
           ErrorKind::usage);
    }
    if (!given.insert(option->name).second)
      fail("T0901", fmt::format("`-{}=` is given twice in target `{}`", option->name, text), {},
           "give one list, separated by commas", ErrorKind::usage);
    option->set(target, word.substr(equals + 1));
  }
  return target;
}

std::string to_string(const Target& target) {
  std::string text = target->kind;
  if (const Architecture* a = architecture_of(target->triple); a && a != &architectures[0])
    text += fmt::format(" -mtriple={}", target->triple);
  text += target->cpu.empty() ? "" : " -mcpu=" + target->cpu;
  for (size_t i = 0; i < target->libs.size(); ++i) text += (i ? "," : " -libs=") + target->libs[i];
  return text;
}

std::string to_json(const Target& target) {
  nlohmann::ordered_json j;
  for (const FieldInfo& f : type_of(target.get())->fields) {
    const Any v = f.get(target.get());
    const std::string key(f.name);
    if (f.is_ref) {
      j[key] = nlohmann::ordered_json::array();
      if (auto list = v.try_as<Ref<ArrayObj>>(); v.is_object() && list)
        for (const Any& item : (*list)->items) j[key].push_back(item.as<std::string>());
    } else if (auto s = v.try_as<std::string>())
      j[key] = *s;
    else if (v.tag() == kBool)
      j[key] = v.as<bool>();
    else if (v.tag() == kFloat)
      j[key] = v.as<double>();
    else
      j[key] = v.as<int64_t>();
  }
  return j.dump(2);
}

namespace {

/// Every mistake of the record at once; `where` names the file.
Target record_from_json(std::string_view text, const std::string& where) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object())
    fail("T0901", "a target record must be a JSON object", where,
         "`tenon doctor --json` shows this machine's", ErrorKind::usage);
  Target target = make<TargetNode>();
  DiagnosticList problems(ErrorKind::usage);
  for (auto& [key, value] : j.items()) {
    const FieldInfo* field = nullptr;
    for (const FieldInfo& f : type_of(target.get())->fields)
      if (f.name == key) field = &f;
    if (!field) {
      problems.add(Diagnostic{"T0901", fmt::format("a target record has no field `{}`", key), where, {}, {}});
      continue;
    }
    const uint32_t kind = field->is_ref ? kFirstObjectIndex : field->get(target.get()).tag();
    if (field->is_ref && value.is_array() &&
        std::all_of(value.begin(), value.end(), [](auto& v) { return v.is_string(); })) {
      Array<std::string> list;
      for (auto& v : value) list.push_back(v.template get<std::string>());
      field->set(target.edit(), Any(list));
    } else if (kind == kBool && value.is_boolean())
      field->set(target.edit(), Any(value.template get<bool>()));
    else if (kind == kInt && value.is_number_integer() && value.template get<int64_t>() >= 0)
      field->set(target.edit(), Any(value.template get<int64_t>()));
    else if (kind == kFloat && value.is_number())
      field->set(target.edit(), Any(value.template get<double>()));
    else if (value.is_string() && kind >= kFirstObjectIndex && !field->is_ref)
      field->set(target.edit(), Any(value.template get<std::string>()));
    else
      problems.add(
          Diagnostic{"T0901",
                     fmt::format("field `{}` of a target record has a value of the wrong kind: {}", key,
                                 value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
                     where,
                     {},
                     {}});
  }
  problems.throw_if_any();
  check_record(*target, where, &problems);
  problems.throw_if_any();
  return target;
}

}  // namespace

Target target_from_json(std::string_view text) { return record_from_json(text, {}); }

}  // namespace tenon

template struct tenon::DefineTypes<tenon::TargetNode>;
