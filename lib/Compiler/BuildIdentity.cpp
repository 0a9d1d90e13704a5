//===- BuildIdentity.cpp - which compiler this is -------------------------===//

#include "BuildIdentity.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/TargetParser/Host.h"

#include <elf.h>
#include <link.h>

using namespace llvm;

namespace {
/// A file that is loaded, searched by an address in it.
struct Search {
  uintptr_t address;
  std::string identity;
};
} // namespace

static bool holds(const dl_phdr_info &object, uintptr_t address) {
  for (const auto &part : ArrayRef(object.dlpi_phdr, object.dlpi_phnum))
    if (uintptr_t start = object.dlpi_addr + part.p_vaddr;
        part.p_type == PT_LOAD && address >= start &&
        address < start + part.p_memsz)
      return true;
  return false;
}

/// The build id among the notes of a segment, or "".
static std::string idAmong(StringRef notes) {
  auto padded = [](size_t n) { return (n + 3) / 4 * 4; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof(note));
    notes = notes.drop_front(sizeof(note));
    StringRef name = notes.take_front(note.n_namesz);
    notes = notes.drop_front(std::min(padded(note.n_namesz), notes.size()));
    if (note.n_type == NT_GNU_BUILD_ID && name == StringRef("GNU\0", 4))
      return toHex(notes.take_front(note.n_descsz), /*LowerCase=*/true);
    notes = notes.drop_front(std::min(padded(note.n_descsz), notes.size()));
  }
  return "";
}

/// Where a linker wrote no id: the file's size and time of change.
static std::string fileIdentity(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path.empty() ? "/proc/self/exe" : path, status))
    return path.str();
  return formatv("{0} {1} {2}", path, status.getSize(),
                 status.getLastModificationTime().time_since_epoch().count());
}

static std::string identityOf(const dl_phdr_info &object) {
  for (const auto &part : ArrayRef(object.dlpi_phdr, object.dlpi_phnum)) {
    if (part.p_type != PT_NOTE)
      continue;
    auto *start =
        reinterpret_cast<const char *>(object.dlpi_addr + part.p_vaddr);
    if (std::string id = idAmong({start, part.p_memsz}); !id.empty())
      return id;
  }
  return fileIdentity(object.dlpi_name);
}

static std::string identityAt(const void *address) {
  Search search{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *given) {
        auto &search = *static_cast<Search *>(given);
        if (holds(*object, search.address))
          search.identity = identityOf(*object);
        return search.identity.empty() ? 0 : 1;
      },
      &search);
  return search.identity;
}

const std::string &fa2::buildIdentity() {
  static const std::string identity = [] {
    auto at = [](auto *function) {
      return identityAt(reinterpret_cast<const void *>(function));
    };
    return formatv("fa2 {0} {1}; MLIR {2}; LLVM {3} {4}", FA2_VERSION,
                   at(&fa2::buildIdentity), at(&mlir::verify),
                   LLVM_VERSION_STRING, at(&sys::getProcessTriple))
        .str();
  }();
  return identity;
}
