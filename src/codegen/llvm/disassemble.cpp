// SPDX-License-Identifier: Apache-2.0
// Object code as text: what the machine will see, not what the assembler was told.
#include <fmt/format.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/processors.h"

namespace tenon::codegen {

std::string disassemble(const ObjectCode& code, const Target& target) {
  initialize_processors();
  const llvm::Triple triple(target->triple.empty() ? "x86_64-unknown-linux-gnu" : target->triple);
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    fail("T0802", fmt::format("LLVM has no disassembler for `{}`: {}", triple.str(), error), {}, {},
         ErrorKind::usage);
  const std::unique_ptr<llvm::MCRegisterInfo> registers(found->createMCRegInfo(triple));
  const llvm::MCTargetOptions options;
  const std::unique_ptr<llvm::MCAsmInfo> syntax(found->createMCAsmInfo(*registers, triple, options));
  const std::unique_ptr<llvm::MCInstrInfo> instructions(found->createMCInstrInfo());
  // Everything that the processor family knows: the text is to show what is there.
  const std::unique_ptr<llvm::MCSubtargetInfo> features(
      found->createMCSubtargetInfo(triple, base_cpu(target), llvm_features(target)));
  llvm::MCContext context(triple, syntax.get(), registers.get(), features.get());
  const std::unique_ptr<llvm::MCDisassembler> reader(found->createMCDisassembler(*features, context));
  const std::unique_ptr<llvm::MCInstPrinter> printer(
      found->createMCInstPrinter(triple, syntax->getAssemblerDialect(), *syntax, *instructions, *registers));
  CHECK(reader && printer, "LLVM made no disassembler");
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const std::string& bytes : code.objects) {
    auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "object"));
    if (!object) throw InternalError("an object cannot be read: " + llvm::toString(object.takeError()));
    for (const llvm::object::SectionRef& section : (*object)->sections()) {
      if (!section.isText()) continue;
      auto contents = section.getContents();
      if (!contents) throw InternalError("a section cannot be read: " + llvm::toString(contents.takeError()));
      const llvm::ArrayRef<uint8_t> all(reinterpret_cast<const uint8_t*>(contents->data()), contents->size());
      for (uint64_t at = 0, size = 0; at < all.size(); at += std::max<uint64_t>(1, size)) {
        llvm::MCInst instruction;
        if (reader->getInstruction(instruction, size, all.slice(at), at, llvm::nulls()) !=
            llvm::MCDisassembler::Success) {
          out << "\t(bad)\n";
          continue;
        }
        printer->printInst(&instruction, at, "", *features, out);
        out << "\n";
      }
    }
  }
  return text;
}

}  // namespace tenon::codegen
