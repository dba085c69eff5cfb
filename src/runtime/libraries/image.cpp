// SPDX-License-Identifier: Apache-2.0
// libtenon_image: images of the usual file formats as bytes of pixels. Bitmaps and portable maps are read
// here, other formats by a library of the system that is loaded when the first such image comes.
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "runtime/libraries/register.h"
#include "runtime/libraries/values.h"

namespace tenon {
namespace {

constexpr int64_t kMostPixels = int64_t(1) << 28;

/// A picture, three bytes a pixel: red, green, blue.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
  /// Makes it that large; false: nothing is, or more than is accepted.
  bool sized(int64_t w, int64_t h) {
    if (w < 1 || h < 1 || w > kMostPixels / h) return false;
    width = w, height = h;
    rgb.resize(size_t(3 * w * h));
    return true;
  }
};
using Bytes = std::span<const uint8_t>;

/// Functions of a library of the system.
class Library {
 public:
  Library(const Operands& o, const char* format, const char* file, const char* package) : o_(o), file_(file) {
    handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle_)
      o.fail(std::string(format) + " images need " + file + ", which cannot be loaded",
             std::string("install the package ") + package);
  }
  template <class F>
  F* function(const char* name) const {
    void* f = dlsym(handle_, name);
    if (!f) o_.fail(file_ + " lacks " + name);
    return reinterpret_cast<F*>(f);
  }

 private:
  const Operands& o_;
  std::string file_;
  void* handle_ = nullptr;
};

// ---------------------------------------------------------------- read here
uint32_t little(Bytes b, size_t at, size_t bytes) {
  uint32_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= uint32_t(b[at + i]) << (8 * i);
  return v;
}
bool read_bitmap(Bytes b, Picture& p) {
  if (b.size() < 54) return false;
  const uint32_t begin = little(b, 10, 4), header = little(b, 14, 4), bits = little(b, 28, 2);
  const auto w = int32_t(little(b, 18, 4)), h = int32_t(little(b, 22, 4));
  const bool flipped = h > 0;
  if (header < 40 || little(b, 30, 4) != 0 || (bits != 8 && bits != 24 && bits != 32) || h == INT32_MIN)
    return false;
  if (!p.sized(w, flipped ? h : -h)) return false;
  const uint64_t row = (uint64_t(w) * bits + 31) / 32 * 4, palette = 14 + uint64_t(header);
  if (begin + row * uint64_t(p.height) > b.size()) return false;
  for (int64_t y = 0; y < p.height; ++y)
    for (int64_t x = 0; x < p.width; ++x) {
      const uint64_t from = begin + row * uint64_t(flipped ? p.height - 1 - y : y) + uint64_t(x) * bits / 8;
      const uint64_t color = bits == 8 ? palette + 4 * uint64_t(b[from]) : from;
      if (color + 3 > b.size()) return false;
      for (uint64_t c = 0; c < 3; ++c) p.rgb[size_t(3 * (y * p.width + x)) + c] = b[color + 2 - c];
    }
  return true;
}
/// P2, P3, P5, P6: grey or colour, as text or as bytes.
bool read_portable(Bytes b, Picture& p) {
  const int kind = b[1] - '0';
  if (kind != 2 && kind != 3 && kind != 5 && kind != 6) return false;
  size_t at = 2;
  const auto number = [&](int64_t& n) {
    while (at < b.size() && (isspace(b[at]) || b[at] == '#'))
      if (b[at++] == '#')
        while (at < b.size() && b[at] != '\n') ++at;
    const size_t from = at;
    for (n = 0; at < b.size() && isdigit(b[at]) && at - from < 9; ++at) n = n * 10 + (b[at] - '0');
    return at > from;
  };
  int64_t w, h, most;
  if (!number(w) || !number(h) || !number(most) || most < 1 || most > 65535) return false;
  ++at;  // one space
  const int64_t channels = kind % 3 == 0 ? 3 : 1, bytes = most > 255 ? 2 : 1;
  const bool text = kind < 4;
  if (w < 1 || h < 1 || w > kMostPixels / h) return false;
  if ((text ? w * h * channels : w * h * channels * bytes) > int64_t(b.size() - std::min(at, b.size())))
    return false;
  if (!p.sized(w, h)) return false;
  for (int64_t i = 0; i < w * h * channels; ++i) {
    int64_t v = 0;
    if (text) {
      if (!number(v)) return false;
    } else {
      for (int64_t k = 0; k < bytes; ++k) v = v << 8 | b[at++];
    }
    const auto scaled = uint8_t(std::min(v, most) * 255 / most);
    for (int64_t c = 0; c < 3 / channels; ++c) p.rgb[size_t(i * 3 / channels + c)] = scaled;
  }
  return true;
}

// ---------------------------------------------------------------- read by libraries
bool read_jpeg(const Operands& o, Bytes b, Picture& p) {
  const Library l(o, "JPEG", "libturbojpeg.so.0", "libturbojpeg0");
  const auto end = l.function<int(void*)>("tjDestroy");
  void* decoder = l.function<void*()>("tjInitDecompress")();
  int w = 0, h = 0, sampling = 0, space = 0;
  const bool good = decoder &&
                    l.function<int(void*, const uint8_t*, unsigned long, int*, int*, int*, int*)>(
                        "tjDecompressHeader3")(decoder, b.data(), b.size(), &w, &h, &sampling, &space) == 0 &&
                    p.sized(w, h) &&
                    l.function<int(void*, const uint8_t*, unsigned long, uint8_t*, int, int, int, int, int)>(
                        "tjDecompress2")(decoder, b.data(), b.size(), p.rgb.data(), w, 0, h, 0, 0) == 0;
  if (decoder) end(decoder);
  return good;
}

bool read_png(const Operands& o, Bytes b, Picture& p) {
  struct Image {  // png_image
    void* opaque = nullptr;
    uint32_t version = 1, width = 0, height = 0, format = 0, flags = 0, colors = 0, problem = 0;
    char message[64] = {};
  } image;
  struct Color {
    uint8_t red = 0, green = 0, blue = 0;
  } background;
  constexpr uint32_t kRgb = 2;
  const Library l(o, "PNG", "libpng16.so.16", "libpng16-16");
  const bool begun = l.function<int(Image*, const void*, size_t)>("png_image_begin_read_from_memory")(
      &image, b.data(), b.size());
  image.format = kRgb;
  const bool good = begun && p.sized(image.width, image.height) &&
                    l.function<int(Image*, const Color*, void*, int32_t, void*)>("png_image_finish_read")(
                        &image, &background, p.rgb.data(), 0, nullptr);
  l.function<void(Image*)>("png_image_free")(&image);
  return good;
}

bool read_webp(const Operands& o, Bytes b, Picture& p) {
  const Library l(o, "WebP", "libwebp.so.7", "libwebp7");
  int w = 0, h = 0;
  if (!l.function<int(const uint8_t*, size_t, int*, int*)>("WebPGetInfo")(b.data(), b.size(), &w, &h))
    return false;
  return p.sized(w, h) && l.function<uint8_t*(const uint8_t*, size_t, uint8_t*, size_t, int)>(
                              "WebPDecodeRGBInto")(b.data(), b.size(), p.rgb.data(), p.rgb.size(), 3 * w);
}

/// A file in memory, as libraries read one.
struct Memory {
  Bytes bytes;
  size_t at = 0;
  size_t read(void* to, size_t size) {
    const size_t n = std::min(size, bytes.size() - at);
    std::memcpy(to, bytes.data() + at, n);
    at += n;
    return n;
  }
};

bool read_tiff(const Operands& o, Bytes b, Picture& p) {
  const Library l(o, "TIFF", "libtiff.so.6", "libtiff6");
  Memory memory{b};
  using Handler = void (*)(const char*, const char*, va_list);
  l.function<Handler(Handler)>("TIFFSetErrorHandler")(nullptr);
  l.function<Handler(Handler)>("TIFFSetWarningHandler")(nullptr);
  using Read = int64_t(void*, void*, int64_t);
  using Map = int(void*, void**, uint64_t*);
  const auto open =
      l.function<void*(const char*, const char*, void*, Read*, Read*, uint64_t(void*, uint64_t, int),
                       int(void*), uint64_t(void*), Map*, void(void*, void*, uint64_t))>("TIFFClientOpen");
  void* file = open(
      "image", "rm", &memory,
      [](void* m, void* to, int64_t n) { return int64_t(static_cast<Memory*>(m)->read(to, size_t(n))); },
      [](void*, void*, int64_t) { return int64_t(0); },
      [](void* user, uint64_t offset, int from) {
        auto* m = static_cast<Memory*>(user);
        const uint64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? m->at : m->bytes.size();
        m->at = size_t(std::min<uint64_t>(base + offset, m->bytes.size()));
        return uint64_t(m->at);
      },
      [](void*) { return 0; }, [](void* m) { return uint64_t(static_cast<Memory*>(m)->bytes.size()); },
      [](void*, void**, uint64_t*) { return 0; }, [](void*, void*, uint64_t) {});
  if (!file) return false;
  constexpr uint32_t kWidth = 256, kLength = 257;
  constexpr int kTopLeft = 1;
  const auto field = l.function<int(void*, uint32_t, ...)>("TIFFGetField");
  uint32_t w = 0, h = 0;
  bool good = field(file, kWidth, &w) && field(file, kLength, &h) && p.sized(w, h);
  if (good) {
    std::vector<uint32_t> raster(size_t(w) * h);
    good = l.function<int(void*, uint32_t, uint32_t, uint32_t*, int, int)>("TIFFReadRGBAImageOriented")(
        file, w, h, raster.data(), kTopLeft, 1);
    for (size_t i = 0; i < raster.size(); ++i)
      for (size_t c = 0; c < 3; ++c) p.rgb[3 * i + c] = uint8_t(raster[i] >> (8 * c));
  }
  l.function<void(void*)>("TIFFClose")(file);
  return good;
}

bool read_jpeg2000(const Operands& o, Bytes b, Picture& p) {
  struct Component {  // opj_image_comp_t
    uint32_t dx, dy, w, h, x0, y0, precision, bits, is_signed, resolution, factor;
    int32_t* data;
    uint16_t alpha;
  };
  struct Image {  // the beginning of opj_image_t
    uint32_t x0, y0, x1, y1, count;
    int space;
    Component* components;
  };
  const Library l(o, "JPEG 2000", "libopenjp2.so.7", "libopenjp2-7");
  Memory memory{b};
  alignas(16) char parameters[1 << 15] = {};  // larger than opj_dparameters_t
  constexpr int kStream = 0, kFile = 2;
  const bool boxed = b.size() > 4 && b[0] == 0;
  void* codec = l.function<void*(int)>("opj_create_decompress")(boxed ? kFile : kStream);
  void* stream = l.function<void*(int)>("opj_stream_default_create")(1);
  Image* image = nullptr;
  using Skip = int64_t(int64_t, void*);
  l.function<void(void*)>("opj_set_default_decoder_parameters")(parameters);
  l.function<void(void*, void*, void*)>("opj_stream_set_user_data")(stream, &memory, nullptr);
  l.function<void(void*, uint64_t)>("opj_stream_set_user_data_length")(stream, b.size());
  l.function<void(void*, size_t(void*, size_t, void*))>("opj_stream_set_read_function")(
      stream, [](void* to, size_t n, void* m) {
        const size_t got = static_cast<Memory*>(m)->read(to, n);
        return got ? got : size_t(-1);
      });
  l.function<void(void*, Skip*)>("opj_stream_set_skip_function")(stream, [](int64_t n, void* user) {
    auto* m = static_cast<Memory*>(user);
    if (n < 0 || size_t(n) > m->bytes.size() - m->at) return int64_t(-1);
    m->at += size_t(n);
    return n;
  });
  l.function<void(void*, int(int64_t, void*))>("opj_stream_set_seek_function")(
      stream, [](int64_t to, void* user) {
        auto* m = static_cast<Memory*>(user);
        if (to < 0 || size_t(to) > m->bytes.size()) return 0;
        m->at = size_t(to);
        return 1;
      });
  bool good =
      l.function<int(void*, void*)>("opj_setup_decoder")(codec, parameters) &&
      l.function<int(void*, void*, Image**)>("opj_read_header")(stream, codec, &image) && image->count > 0 &&
      int64_t(image->x1) - image->x0 <= kMostPixels / std::max<int64_t>(1, int64_t(image->y1) - image->y0) &&
      l.function<int(void*, void*, Image*)>("opj_decode")(codec, stream, image);
  const uint32_t channels = good && image->count >= 3 ? 3 : 1;
  for (uint32_t c = 0; good && c < channels; ++c) {
    const Component& k = image->components[c];
    good = k.data && k.precision == 8 && !k.is_signed && k.w == image->components[0].w &&
           k.h == image->components[0].h;
  }
  good = good && p.sized(image->components[0].w, image->components[0].h);
  for (size_t i = 0; good && i < p.rgb.size(); ++i)
    p.rgb[i] = uint8_t(std::clamp(image->components[channels == 3 ? i % 3 : 0].data[i / 3], 0, 255));
  if (image) l.function<void(Image*)>("opj_image_destroy")(image);
  l.function<void(void*)>("opj_stream_destroy")(stream);
  l.function<void(void*)>("opj_destroy_codec")(codec);
  return good;
}

// ---------------------------------------------------------------- the operator
bool read_any(const Operands& o, Bytes b, Picture& p) {
  const auto starts = [&](std::string_view s, size_t at = 0) {
    return b.size() >= at + s.size() && std::memcmp(b.data() + at, s.data(), s.size()) == 0;
  };
  using std::string_view_literals::operator""sv;
  if (starts("BM")) return read_bitmap(b, p);
  if (starts("\xff\xd8\xff")) return read_jpeg(o, b, p);
  if (starts("\x89PNG")) return read_png(o, b, p);
  if (starts("RIFF") && starts("WEBP", 8)) return read_webp(o, b, p);
  if (starts("II*\0"sv) || starts("MM\0*"sv)) return read_tiff(o, b, p);
  if (starts("\0\0\0\x0cjP"sv) || starts("\xff\x4f\xff\x51")) return read_jpeg2000(o, b, p);
  if (b.size() > 2 && b[0] == 'P') return read_portable(b, p);
  o.fail("the bytes are no image of a known format",
         "BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP are read");
}

/// (bytes, order: 0 RGB, 1 BGR, 2 grey) → pixels of shape (height, width, channels)
Any decode(Arguments a) {
  const Operands o(a);
  const NDArray bytes = o.tensor(0);
  const int64_t order = o.integer(1);
  if (bytes.dtype() != u8 || bytes.ndim() != 1) o.fail("a vector of bytes is needed");
  Picture p;
  if (!read_any(o, Bytes(bytes.as_ptr<uint8_t>(), size_t(bytes.size())), p))
    o.fail("the image is damaged, or of a kind that is not read");
  const NDArray out = NDArray::empty({p.height, p.width, order == 2 ? 1 : 3}, u8);
  auto* to = out.as_ptr<uint8_t>();
  for (size_t i = 0; i < p.rgb.size(); i += 3) {
    const uint32_t r = p.rgb[i], g = p.rgb[i + 1], b = p.rgb[i + 2];
    if (order == 2) {
      *to++ = uint8_t((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);  // ITU-R BT.601, in 16 bits
      continue;
    }
    *to++ = uint8_t(order == 1 ? b : r), *to++ = uint8_t(g), *to++ = uint8_t(order == 1 ? r : b);
  }
  return Any(out);
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.image.decode", decode);
  return true;
}();

}  // namespace
}  // namespace tenon
