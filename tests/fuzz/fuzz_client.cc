// A client (native/arm) against a DSP that says whatever the input holds.
//
// The input: one byte that fills the first bytes of the result region and of the printf buffer, then messages, each two
// bytes of flags and length (bit 15: the request's own number is put in; bit 14: nothing more is waiting) and its bytes.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "internal.h"

namespace {

struct Fake {
  c7x_transport base;
  const uint8_t* data;
  size_t left;
  uint32_t seq;
  bool asked;
};

ssize_t Send(c7x_transport* self, const void* message, size_t size) {
  Fake* fake = reinterpret_cast<Fake*>(self);
  c7x_msg_header header;
  if (size < sizeof header || size > C7X_MAX_RPMSG_PAYLOAD) abort();
  std::memcpy(&header, message, sizeof header);
  if (header.len != size) abort();
  fake->seq = header.seq;
  fake->asked = true;
  return static_cast<ssize_t>(size);
}

ssize_t Receive(c7x_transport* self, void* message, size_t size) {
  Fake* fake = reinterpret_cast<Fake*>(self);
  if (!fake->asked) {
    errno = EAGAIN;
    return -1;
  }
  if (fake->left < 2) return 0;  // the DSP went away
  const unsigned head = fake->data[0] | fake->data[1] << 8;
  size_t length = head & 0x3FF;
  fake->data += 2;
  fake->left -= 2;
  if (length > fake->left) length = fake->left;
  std::memcpy(message, fake->data, length < size ? length : size);
  if ((head & 0x8000) != 0 && length >= 8) std::memcpy(static_cast<uint8_t*>(message) + 4, &fake->seq, 4);
  fake->data += length;
  fake->left -= length;
  fake->asked = (head & 0x4000) == 0 && (head & 0x8000) == 0;
  return static_cast<ssize_t>(length);
}

int Sync(c7x_transport*) { return 0; }

void Close(c7x_transport* self) {
  close(self->fd);
  delete reinterpret_cast<Fake*>(self);
}

volatile unsigned char g_sink;

void Touch(const void* data, size_t size) {
  for (size_t i = 0; i < size; i += 4096) g_sink = static_cast<const unsigned char*>(data)[i];
  if (size > 0) g_sink = static_cast<const unsigned char*>(data)[size - 1];
}

void Print(const char* text, size_t size, void*) { Touch(text, size); }

const char* Module() {
  static char path[] = "/tmp/c7x-fuzz-XXXXXX";
  static bool made = false;
  if (!made) {
    const int fd = mkstemp(path);
    if (fd < 0 || write(fd, "module", 6) != 6) abort();
    close(fd);
    made = true;
    std::atexit([] { unlink(path); });
  }
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  void* memory = mmap(nullptr, C7X_CARVEOUT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  uint8_t* base = static_cast<uint8_t*>(memory);
  const size_t filled = data[0] < size - 1 ? data[0] : size - 1;
  std::memcpy(base + C7X_RESULT_OFFSET, data + 1, filled);
  std::memcpy(base + C7X_PRINTF_OFFSET, data + 1, filled);

  Fake* fake = new Fake();
  fake->base.name = "fuzz";
  fake->base.explains_loads = 1;
  fake->base.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);  // always ready
  fake->base.base = base;
  fake->base.send = Send;
  fake->base.receive = Receive;
  fake->base.sync_to_dsp = fake->base.sync_from_dsp = Sync;
  fake->base.close = Close;
  fake->data = data + 1;
  fake->left = size - 1;

  setenv("C7X_TIMEOUT_MS", "1", 1);
  c7x_error_t error;
  c7x_client_t* client = c7x_client_adopt(&fake->base, &error);
  if (client == nullptr) abort();
  c7x_client_set_printf_callback(client, Print, nullptr);
  uint32_t handle = 0, id = 0, version = 0, uptime = 0;
  c7x_status_t status;
  c7x_client_ping(client, &version, &uptime);
  c7x_client_get_status(client, &status);
  c7x_client_model_load(client, Module(), &id);
  if (c7x_client_dyn_load(client, Module(), &handle) == 0) {
    static float x[300];
    c7x_tensor_desc_t inputs[6] = {}, outputs[C7X_CLIENT_MAX_OUTPUTS];
    for (c7x_tensor_desc_t& input : inputs) input = {x, sizeof x, 1, 2, 32, {300}};
    for (int n = 0; n <= 6; n += 2) {
      int count = -1;
      if (c7x_client_infer_bounded(client, handle, 0, inputs, n, outputs, C7X_CLIENT_MAX_OUTPUTS, &count, nullptr, 0) != 0)
        continue;
      if (count < 0 || count > C7X_CLIENT_MAX_OUTPUTS) abort();
      for (int i = 0; i < count; ++i) {
        const uint8_t* start = static_cast<const uint8_t*>(outputs[i].data);
        if (start < base + C7X_RESULT_OFFSET || outputs[i].data_size > C7X_RESULT_SIZE) abort();
        Touch(start, outputs[i].data_size);
      }
    }
  }
  c7x_client_get_last_oom(client, &handle, &id, &version);
  c7x_client_dyn_unload(client, 1);
  c7x_client_last_error(client, &error);
  c7x_client_close(client);
  return 0;
}
