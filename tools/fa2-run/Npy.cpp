//===- Npy.cpp - NumPy's .npy files ---------------------------------------===//

#include "Npy.h"

#include "Failure.h"
#include "Files.h"

#include <charconv>
#include <cstring>

namespace fa2run {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

/// Reads the header, a Python literal such as
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
public:
  HeaderReader(std::string_view text, std::string_view file)
      : text(text), file(file) {}

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;

  void read() {
    expect('{');
    bool haveDescr = false, haveOrder = false, haveShape = false;
    while (!accept('}')) {
      std::string key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
        haveDescr = true;
      } else if (key == "fortran_order") {
        fortran = boolean();
        haveOrder = true;
      } else if (key == "shape") {
        readShape();
        haveShape = true;
      } else {
        bad(fmt::format("unknown header field '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!haveDescr || !haveOrder || !haveShape)
      bad("the header lacks descr, fortran_order or shape");
  }

private:
  [[noreturn]] void bad(const std::string &what) const {
    refuse("{}: not a readable .npy file: {}", file, what);
  }
  void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n'))
      ++at;
  }
  bool accept(char c) {
    skip();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      bad(fmt::format("expected '{}' in the header", c));
  }
  std::string quoted() {
    skip();
    char quote = at < text.size() ? text[at] : 0;
    size_t end = quote == '\'' || quote == '"' ? text.find(quote, at + 1)
                                               : std::string_view::npos;
    if (end == std::string_view::npos)
      bad("expected a quoted word in the header (a structured array?)");
    std::string word(text.substr(at + 1, end - at - 1));
    at = end + 1;
    return word;
  }
  bool boolean() {
    skip();
    for (auto [word, value] : {std::pair("True", true), {"False", false}})
      if (text.compare(at, std::strlen(word), word) == 0) {
        at += std::strlen(word);
        return value;
      }
    bad("expected True or False in the header");
  }
  void readShape() {
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t extent = 0;
      auto [end, error] =
          std::from_chars(text.data() + at, text.data() + text.size(), extent);
      if (error != std::errc() || extent < 0)
        bad("expected extents in the header's shape");
      at = size_t(end - text.data());
      shape.push_back(extent);
      if (shape.size() > 32)
        bad("more than 32 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text, file;
  size_t at = 0;
};

uint32_t littleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint32_t(uint8_t(bytes[i])) << (8 * i);
  return value;
}

template <typename T, typename Convert>
void convertItems(std::string_view data, std::vector<float> &values,
                  Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    T item;
    std::memcpy(&item, data.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(item);
  }
}

} // namespace

Array parseNpy(std::string_view bytes, std::string_view name) {
  auto bad = [&](std::string_view what) {
    refuse("{}: not a readable .npy file: {}", name, what);
  };
  if (bytes.substr(0, 6) != kMagic || bytes.size() < 10)
    bad("it does not begin with \\x93NUMPY");
  int major = bytes[6];
  if (major < 1 || major > 3)
    refuse("{}: .npy version {} is unknown (known: 1 to 3)", name, major);
  size_t lengthBytes = major == 1 ? 2 : 4;
  size_t begin = 8 + lengthBytes;
  if (bytes.size() < begin)
    bad("the file ends within its header");
  size_t length = littleEndian(bytes.substr(8, lengthBytes));
  if (length > bytes.size() - begin)
    bad("the file ends within its header");
  HeaderReader header(bytes.substr(begin, length), name);
  header.read();
  std::string_view data = bytes.substr(begin + length);

  std::string type = header.descr;
  if (type == "<f2" || type == "<f4" || type == "<f8")
    type.erase(0, 1);
  else if (type == "|V2" || type == "<V2" || type == "V2")
    type = "bf16";
  else
    refuse("{}: items of type '{}' are not supported (supported: <f2, <f4, "
           "<f8, and |V2 for bf16)",
           name, header.descr);
  if (header.fortran)
    refuse("{}: the array is in Fortran order; save it with "
           "numpy.ascontiguousarray",
           name);
  size_t itemBytes = type == "f8" ? 8 : type == "f4" ? 4 : 2;
  size_t count = 1;
  for (int64_t extent : header.shape)
    if (__builtin_mul_overflow(count, size_t(extent), &count))
      bad("the shape overflows 64 bits");
  if (count > data.size() / itemBytes || count * itemBytes != data.size())
    refuse("{}: the header promises {} items of {} bytes, but {} bytes follow",
           name, count, itemBytes, data.size());

  Array array;
  array.shape = header.shape;
  array.values.resize(count);
  if (type == "f2")
    convertItems<uint16_t>(data, array.values, decodeF16);
  else if (type == "bf16")
    convertItems<uint16_t>(data, array.values, decodeBF16);
  else if (type == "f4")
    convertItems<float>(data, array.values, [](float x) { return x; });
  else
    convertItems<double>(data, array.values, [](double x) { return float(x); });
  return array;
}

Array readNpy(const std::string &path) {
  return parseNpy(readFile(path), path);
}

std::string formatNpy(const Array &array, bool asF16) {
  std::string shape;
  for (int64_t extent : array.shape)
    shape += fmt::format("{}, ", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  asF16 ? "<f2" : "<f4", shape);
  // Magic, version and length take 10 bytes; the data begin at a multiple of
  // 64, after a newline.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header.push_back('\n');
  std::string bytes(kMagic);
  bytes +=
      {'\x01', '\x00', char(header.size() & 255), char(header.size() >> 8)};
  bytes += header;
  for (float value : array.values) {
    if (asF16) {
      uint16_t item = encodeF16(value);
      bytes.append(reinterpret_cast<const char *>(&item), sizeof item);
    } else {
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
  }
  return bytes;
}

} // namespace fa2run
