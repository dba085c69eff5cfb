// SPDX-License-Identifier: Apache-2.0
// What the writer and the loader of artifacts share: the header, the extent of an ELF image, the tables.
#pragma once
#include <string>
#include <string_view>

#include "runtime/artifact.h"

namespace tenon::artifact_format {

inline constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'A', 'R', 'T'};
inline constexpr uint64_t kPage = 4096, kAlign = 64;

struct Header {
  char magic[8];
  uint32_t format, kernel_abi;
  uint64_t file_bytes;
  uint64_t code_bytes, code_hash;  ///< the ELF image, from offset 0
  uint64_t tables_at, tables_bytes, tables_hash;
  uint64_t constants_at, constants_bytes;
  uint64_t variants_at, num_variants, variants_hash;  ///< VariantRecords; none where there is one variant
  uint64_t unused[2];
  uint64_t header_hash;  ///< of the bytes before this field
};
static_assert(sizeof(Header) == 128);

/// Code and tables for another processor than those of the header; constants are shared.
struct VariantRecord {
  uint64_t code_at, code_bytes, code_hash;
  uint64_t tables_at, tables_bytes, tables_hash;
};

/// Metadata key of the name of a module's import, a file in the module's folder.
inline constexpr std::string_view kImport = "import.";
inline std::string import_key(size_t k) { return std::string(kImport) + std::to_string(k); }

inline uint64_t align_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/// Bytes of the ELF image at the start of `file`, or 0 when this is not a 64-bit little-endian ELF file.
/// May exceed the file: then it is truncated. Reads nothing outside `file`.
uint64_t elf_extent(std::string_view file, uint16_t* machine);

/// Where a constant lies among the constants, and its content hash.
struct ConstantRecord {
  DataType dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0, bytes = 0, hash = 0;
};

/// Error "T0605" on anything that does not decode; memory use is bounded by the size of `bytes`.
void decode_tables(std::string_view bytes, Executable& executable, std::vector<ConstantRecord>& constants);

}  // namespace tenon::artifact_format
