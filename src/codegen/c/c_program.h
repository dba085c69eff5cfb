// SPDX-License-Identifier: Apache-2.0
// Bytecode as C functions: registers become places in static memory where all ways to an instruction agree on
// them, and variables elsewhere; jumps become goto, calls of functions calls.
#pragma once
#include <algorithm>

#include "codegen/c/c_values.h"
#include "runtime/builtin.h"

namespace tenon::codegen {

/// Static memory for tensors that one instruction makes: several copies where earlier ones are still read.
struct CBuffer {
  int64_t bytes = 0, copies = 1;
};

/// What the functions of a model share.
struct CProgram {
  const Executable& executable;
  std::string prefix;     ///< of every kernel's symbol
  int64_t alignment;      ///< of static memory
  std::string functions;  ///< text of those that `main` calls
  std::vector<CBuffer> buffers;
  std::set<std::string> kernels;             ///< symbols that are called
  std::map<std::string, std::string> named;  ///< functions printed so far: their key → the name in the text
  std::map<std::string, CValue> results;     ///< what functions return, by the same keys
  std::vector<int32_t> active;               ///< those that are being followed, the outermost first
};

/// The statements of `main`, over `inputs` and `outputs`, the bytes of each, and what the outputs are: the
/// tensors of its result, one behind the other where tuples nest. NoEntry when C cannot express it.
struct CMain {
  std::string body;
  std::vector<int64_t> input_bytes, output_bytes;
  std::vector<ValueInfo> outputs;
};
CMain c_main(CProgram& program);

// What `PREFIX_run` returns besides the codes of kernels (the header says the same).
inline constexpr int kWrongSize = -3, kRefused = -4;

struct Line {
  std::string variable;  ///< that it assigns, which nobody may read; empty: it stays
  std::string text;
};

/// One function of the VM followed over all ways through it until nothing changes, then printed.
class Body {
 public:
  Body(CProgram& program, const VMFunction& f, bool main)
      : p_(program), e_(program.executable), f_(f), main_(main), before_(f.num_instructions) {}

  /// Follows the function from `arguments` on; what it returns.
  CValue follow(std::vector<CValue> arguments);
  /// The statements; `follow` came before.
  std::string print();
  std::set<std::string> parameters;  ///< variables that are the function's own parameters
  std::map<int, size_t> given;  ///< buffers of `main` that are the caller's memory from the start → output
  std::vector<CValue> outputs;  ///< of `main`

 private:
  const Instruction& at(uint32_t i) const { return e_.code[f_.first_instruction + i]; }

  void follow_waiting();
  void find_jumps();
  bool in_loop(uint32_t i) const {
    return std::ranges::any_of(loops_, [&](const auto& l) { return l.first <= i && i <= l.second; });
  }
  void reach(uint32_t i, const State& s) {
    std::optional<State>& known = before_[i];
    State next = known ? join(*known, s) : s;
    if (known && *known == next) return;
    known = std::move(next);
    waiting_.insert(i);
  }

  /// Registers that are read behind each instruction, by the jumps and loops of the function.
  void find_live();

  // ---------------------------------------------------------------- operands
  Operand operand(const Arg& a, const State& s) const;
  Operand operand(const Instruction& in, uint32_t k, const State& s) const;
  static int64_t known(const Operand& o) {
    if (o.value.kind == CValue::number && o.value.known) return *o.value.known;
    throw NoEntry{"its sizes are not known before it runs"};
  }
  /// The sizes that arguments from `from` on are: numbers, or one shape.
  std::vector<Operand> sizes(const Instruction& in, uint32_t from, const State& s) const;
  static std::vector<Operand> items(const Operand& o) {
    std::vector<Operand> out;
    for (size_t i = 0; i < o.value.items.size(); ++i)
      out.push_back({o.value.items[i], fmt::format("{}_{}", o.holder, i)});
    return out;
  }
  /// The sizes of a tensor, or those that a shape is.
  std::vector<Operand> shape_of(const Operand& o) const;
  static const Operand& tensor_of(const Operand& o) {
    if (o.value.kind != CValue::tensor) throw NoEntry{"a kernel takes what is no tensor of a known size"};
    return o;
  }
  /// A number, or the element of a tensor of one.
  Operand scalar_of(const Operand& o) const;
  static std::string scalar_text(const Operand& o, const Operand& scalar) {
    if (o.value.kind == CValue::number || scalar.value.known) return text(scalar.value, scalar.holder);
    return fmt::format("{}({})", access("get", o.value.dtype), text(o.value, o.holder));
  }

  // ---------------------------------------------------------------- lines
  void line(std::string what) {
    if (printing_) lines_.push_back({{}, std::move(what)});
  }
  void assign(const std::string& name, const std::string& value) {
    if (printing_ && name != value) lines_.push_back({name, value});
  }
  void failing(const std::string& call) { line(fmt::format("if ((code = {}) != 0) return code;", call)); }

  /// The register holds the value from here on. `parts`: where each of its items was, all read before any is
  /// written.
  void put(int32_t dst, State& s, const CValue& value, const std::vector<Operand>& parts);
  void put(int32_t dst, State& s, const Operand& o);
  /// A number with the expression that computes it.
  void put_number(int32_t dst, State& s, const CValue& v, const std::string& expression) {
    if (dst < 0) return;
    assign(variable(v, std::to_string(dst)), v.known ? literal(*v.known) : expression);
    s.registers[size_t(dst)] = v;
  }

  // ---------------------------------------------------------------- memory
  int buffer(uint32_t i, int leaf, int64_t bytes) {
    const auto [it, fresh] = buffers_.try_emplace({i, leaf}, int(p_.buffers.size()));
    if (fresh) p_.buffers.push_back({bytes, 1});
    return it->second;
  }
  /// New memory at an instruction. In a loop it is a copy that no register which is read later holds.
  CValue fresh(uint32_t i, const Instruction& in, const State& s, DataType t,
               const std::vector<int64_t>& dims, int leaf, const std::string& name);

  // ---------------------------------------------------------------- instructions
  /// Follows one instruction; false: the next in the text is not the next that runs.
  bool step(uint32_t i, State& s);
  void jump(uint32_t i, int32_t offset, const State& s, const std::string& condition);

  void returned(const Instruction& in, const State& s);

  /// False: nothing comes behind it.
  bool call(uint32_t i, const Instruction& in, State& s);

  void kernel(const Callee& c, const Instruction& in, const State& s);

  void function(uint32_t i, const Callee& c, const Instruction& in, State& s);
  static void as_parameter(CValue& v);
  template <class F>
  static void own(CValue& v, const std::string& holder, F f) {
    if (v.kind == CValue::none || (v.kind == CValue::tensor && !v.dims))
      throw NoEntry{"a function's result has no known type"};
    if (v.kind != CValue::list) return f(v, holder);
    for (size_t i = 0; i < v.items.size(); ++i) own(v.items[i], fmt::format("{}_{}", holder, i), f);
  }
  CValue result_of(int32_t index, const std::string& key, const std::vector<CValue>& values);
  /// The name of the function in the text, which is printed once for each kind of arguments. `taken`: the
  /// variables that are its parameters, before pointers of the types in `results`.
  std::string printed(int32_t index, const VMFunction& f, const std::string& key,
                      const std::vector<CValue>& values, const std::vector<std::string>& taken,
                      const std::vector<std::string>& results);

  void builtin(Builtin b, uint32_t i, const Instruction& in, State& s);
  void put_fresh(int32_t dst, State& s, const CValue& v, const std::string& variable_name) {
    if (dst < 0) return;
    assign("p" + std::to_string(dst), variable_name);
    s.registers[size_t(dst)] = v;
  }
  void copy_bytes(const std::string& to, const std::string& from, int64_t bytes) {
    if (bytes) line(fmt::format("memmove({}, {}, {});", to, from, bytes));
  }
  void allocate(DataType t, const std::vector<Operand>& dims, uint32_t i, const Instruction& in, State& s) {
    std::vector<int64_t> numbers;
    for (const Operand& d : dims) numbers.push_back(known(d));
    const CValue v = fresh(i, in, s, t, numbers, 0, in.dst < 0 ? "px" : fmt::format("p{}", in.dst));
    if (in.dst >= 0) s.registers[size_t(in.dst)] = v;
  }
  // ---------------------------------------------------------------- lists that grow (c_lists.cpp)
  struct ListType {
    DataType dtype;
    std::optional<std::vector<int64_t>> item;  ///< the shape of its tensors
    std::optional<int64_t> most;               ///< how many there are
  };
  /// False: it is another function.
  bool list_call(const std::string& name, uint32_t i, const Instruction& in, State& s);
  ListType& list_type(const Operand& list);
  void learn(ListType& type, DataType dtype, const std::vector<int64_t>& item);
  void empty_list(uint32_t i, const Instruction& in, State& s);
  void append(uint32_t i, const Instruction& in, State& s);
  void stack(uint32_t i, const Instruction& in, State& s);
  /// The first dimension that is asked of the tensor behind instruction i, before anything else reads it.
  std::optional<int64_t> asked_count(uint32_t i, int32_t tensor) const;
  void tensor_to_shape(const Instruction& in, State& s);
  void match_shape(const Instruction& in, State& s);
  void compute_shape(const Instruction& in, State& s);
  /// The result over known numbers that neither overflow nor divide by zero.
  static std::optional<int64_t> folded(ShapeOp op, const Operand& a, const Operand& b);
  /// All at once: what is written first must not be what is read later.
  void copy_into(uint32_t i, const Instruction& in, State& s);

  // ---------------------------------------------------------------- text
  /// The lines without assignments that nobody reads, the variables before them.
  std::string joined();
  CProgram& p_;
  const Executable& e_;
  const VMFunction& f_;
  bool main_, branches_ = false, printing_ = false;
  std::vector<std::optional<State>> before_;  ///< where a block begins
  std::set<uint32_t> leaders_, targets_, waiting_;
  std::vector<std::pair<uint32_t, uint32_t>> loops_;  ///< first and last instruction
  std::vector<std::vector<bool>> live_;               ///< registers that are read behind an instruction
  std::map<std::pair<uint32_t, int>, int> buffers_;
  /// By the instruction that makes one: what this round finds, and what the rounds before it found.
  std::map<uint32_t, ListType> lists_, known_lists_;
  bool learned_ = false;  ///< of a list, in this round
  std::optional<CValue> result_;
  std::vector<Line> lines_;
  std::set<std::string> read_, addressed_;
};

}  // namespace tenon::codegen
