// SPDX-License-Identifier: Apache-2.0
// The extent of an ELF image, and the decoder of the executable's tables, which trusts nothing.
#include "runtime/artifact_format.h"

#include <elf.h>

#include <algorithm>

namespace tenon::artifact_format {

uint64_t elf_extent(std::string_view file, uint16_t* machine) {
  Elf64_Ehdr h;
  if (file.size() < sizeof h || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) return 0;
  std::memcpy(&h, file.data(), sizeof h);
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB) return 0;
  if (machine) *machine = h.e_machine;
  constexpr uint64_t most = uint64_t(1) << 48;
  uint64_t end = sizeof h;
  auto extend = [&](uint64_t at, uint64_t bytes) {
    if (at < most && bytes < most) end = std::max(end, at + bytes);
  };
  extend(h.e_phoff, uint64_t(h.e_phnum) * h.e_phentsize);
  extend(h.e_shoff, uint64_t(h.e_shnum) * h.e_shentsize);
  auto inside = [&](uint64_t at, uint64_t bytes) { return at <= file.size() && bytes <= file.size() - at; };
  if (h.e_phentsize == sizeof(Elf64_Phdr) && inside(h.e_phoff, uint64_t(h.e_phnum) * sizeof(Elf64_Phdr)))
    for (int i = 0; i < h.e_phnum; ++i) {
      Elf64_Phdr p;
      std::memcpy(&p, file.data() + h.e_phoff + size_t(i) * sizeof p, sizeof p);
      if (p.p_type != PT_NULL) extend(p.p_offset, p.p_filesz);
    }
  if (h.e_shentsize == sizeof(Elf64_Shdr) && inside(h.e_shoff, uint64_t(h.e_shnum) * sizeof(Elf64_Shdr)))
    for (int i = 0; i < h.e_shnum; ++i) {
      Elf64_Shdr s;
      std::memcpy(&s, file.data() + h.e_shoff + size_t(i) * sizeof s, sizeof s);
      if (s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS) extend(s.sh_offset, s.sh_size);
    }
  return end;
}

namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::model, "T0605", "the tables of the artifact are damaged", {},
                "compile the model again, or copy the file again");
  }
  template <class T>
  T number() {
    if (left_.size() < sizeof(T)) refuse();
    T v;
    std::memcpy(&v, left_.data(), sizeof v);
    left_.remove_prefix(sizeof v);
    return v;
  }
  std::string text() {
    const uint32_t n = number<uint32_t>();
    if (n > left_.size()) refuse();
    std::string s(left_.substr(0, n));
    left_.remove_prefix(n);
    return s;
  }
  DataType type() { return dtype_of_word(number<uint32_t>()); }
  /// A count of records that take at least `least` bytes each, so that it cannot ask for more than the file
  /// holds.
  uint32_t count(size_t least) {
    const uint32_t n = number<uint32_t>();
    if (n > left_.size() / least) refuse();
    return n;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> dims(count(8));
    for (int64_t& d : dims) d = number<int64_t>();
    return dims;
  }
  ValueInfo value() {
    ValueInfo v;
    v.name = text();
    v.dtype = type();
    v.known_rank = number<uint8_t>() != 0;
    v.shape.resize(count(12));
    for (DimInfo& d : v.shape) {
      d.value = number<int64_t>();
      d.symbol = text();
    }
    return v;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace

void decode_tables(std::string_view bytes, Executable& e, std::vector<ConstantRecord>& constants) {
  Reader r(bytes);
  e.needs.triple = r.text();
  e.needs.cpu = r.text();
  e.needs.features.resize(r.count(4));
  for (std::string& f : e.needs.features) f = r.text();
  e.metadata.resize(r.count(8));
  for (auto& [k, v] : e.metadata) {
    k = r.text();
    v = r.text();
  }
  e.functions.resize(r.count(32));
  for (VMFunction& f : e.functions) {
    f.name = r.text();
    f.num_params = r.number<int32_t>();
    f.num_registers = r.number<int32_t>();
    f.heap_size = r.number<int32_t>();
    f.first_instruction = r.number<uint32_t>();
    f.num_instructions = r.number<uint32_t>();
    f.params.resize(r.count(13));
    for (ValueInfo& v : f.params) v = r.value();
    f.results.resize(r.count(13));
    for (ValueInfo& v : f.results) v = r.value();
  }
  e.code.resize(r.count(21));
  for (Instruction& i : e.code) {
    i.op = Opcode(r.number<uint8_t>());
    i.dst = r.number<int32_t>();
    i.callee = r.number<int32_t>();
    i.offset = r.number<int32_t>();
    i.first_arg = r.number<uint32_t>();
    i.num_args = r.number<uint32_t>();
  }
  e.args.resize(r.count(8));
  for (Arg& a : e.args) a.word = r.number<int64_t>();
  e.callees.resize(r.count(17));
  for (Callee& c : e.callees) {
    c.kind = CalleeKind(r.number<uint8_t>());
    c.name = r.text();
    c.index = r.number<int32_t>();
    c.num_buffers = r.number<int32_t>();
    c.buffer_bytes = r.numbers();
  }
  e.arena_bytes = r.number<int64_t>();
  e.arena_tensors.resize(r.count(16));
  for (ArenaTensor& t : e.arena_tensors) {
    t.offset = r.number<int64_t>();
    t.dtype = r.type();
    t.shape = r.numbers();
  }
  e.modules.resize(r.count(8));
  for (CodeModule& m : e.modules) {
    m.loader = r.text();
    m.bytes = r.text();
  }
  constants.resize(r.count(32));
  for (ConstantRecord& c : constants) {
    c.dtype = r.type();
    c.shape = r.numbers();
    c.offset = r.number<uint64_t>();
    c.bytes = r.number<uint64_t>();
    c.hash = r.number<uint64_t>();
  }
  if (!r.at_end()) Reader::refuse();
}

}  // namespace tenon::artifact_format
