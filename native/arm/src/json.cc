#include "json.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// Bytes of the well-formed UTF-8 sequence at `p`, or 0.
size_t Utf8Length(const unsigned char* p, size_t left) {
  size_t length = p[0] < 0x80 ? 1 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : (p[0] & 0xF0) == 0xE0 ? 3 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
  const bool surrogate = p[0] == 0xED && p[1] >= 0xA0;
  const bool too_large = p[0] == 0xF4 && p[1] >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

void AppendUtf8(uint32_t code, std::string* text) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
  } else if (code < 0x800) {
    *text += static_cast<char>(0xC0 | code >> 6);
    *text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *text += static_cast<char>(0xE0 | code >> 12);
    *text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  void SkipSpace() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  bool String(std::string* value) {
    if (!Take('"')) return false;
    value->clear();
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        *value += c;
        continue;
      }
      if (at_ >= text_.size()) return false;
      c = text_[at_++];
      static const char kFrom[] = "\"\\/bfnrt";
      static const char kTo[] = "\"\\/\b\f\n\r\t";
      const char* found = c == '\0' ? nullptr : std::strchr(kFrom, c);
      if (found != nullptr) {
        *value += kTo[found - kFrom];
      } else if (c == 'u' && at_ + 4 <= text_.size()) {
        char* end;
        const std::string digits = text_.substr(at_, 4);
        AppendUtf8(static_cast<uint32_t>(std::strtoul(digits.c_str(), &end, 16)), value);
        if (end != digits.c_str() + 4) return false;
        at_ += 4;
      } else {
        return false;
      }
    }
    return false;
  }

  // A number, true, false or null, as written.
  bool Word(std::string* value) {
    SkipSpace();
    size_t start = at_;
    while (at_ < text_.size() && std::strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", text_[at_]) != nullptr &&
           text_[at_] != '\0') {
      ++at_;
    }
    *value = text_.substr(start, at_ - start);
    return at_ > start;
  }

  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  const unsigned char* p = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    size_t length = Utf8Length(p + i, text.size() - i);
    char escaped[8];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      length = 1;
    } else if (p[i] == '"' || p[i] == '\\') {
      out += '\\';
      out += text[i];
    } else if (p[i] < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", p[i]);
      out += escaped;
    } else {
      out.append(text, i, length);
    }
    i += length;
  }
  return out + "\"";
}

bool JsonObject::Parse(const std::string& text, std::string* error) {
  values_.clear();
  Reader reader(text);
  *error = "the request is not a flat JSON object";
  if (!reader.Take('{')) return false;
  if (!reader.Take('}')) {
    do {
      std::string key;
      Value value;
      if (!reader.String(&key) || !reader.Take(':')) return false;
      value.is_string = reader.Peek() == '"';
      if (value.is_string ? !reader.String(&value.text) : !reader.Word(&value.text)) return false;
      values_[key] = value;
    } while (reader.Take(','));
    if (!reader.Take('}')) return false;
  }
  if (!reader.AtEnd()) return false;
  error->clear();
  return true;
}

bool JsonObject::GetString(const std::string& key, std::string* value) const {
  auto found = values_.find(key);
  if (found == values_.end() || !found->second.is_string) return false;
  *value = found->second.text;
  return true;
}

bool JsonObject::GetNumber(const std::string& key, int64_t* value) const {
  auto found = values_.find(key);
  if (found == values_.end() || found->second.is_string) return false;
  const std::string& text = found->second.text;
  if (text == "true" || text == "false") {
    *value = text == "true";
    return true;
  }
  char* end;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || end == text.c_str() || number < 0) return false;
  *value = number;
  return true;
}
