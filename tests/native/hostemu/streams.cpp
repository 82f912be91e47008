/* Opens streams as standard input says and writes what they give: tests/integration/test_hostemu.py.
 *
 * Input: bytes of memory (64 KiB, bases around its middle), then for every template its words and the number of reads.
 * Output of a read: the register; then, where the template can be one of an address generator, offset and predicates. */
#include <c7x.h>
#include <c7x_scalable.h>

#include <stdlib.h>

#include <memory>

static const int half = 32768;

struct words {
  int32_t icnt[6], dim[5], width1, width2, lezr_count, eletype, transpose, promote, veclen, eledup, grpdup, decim, dimfmt,
      dir, decdim1, decdim2, decdim1sd, decdim2sd, lezr, am[6], cbk0, cbk1, shift, reads;

  bool linear() const { return !(am[0] || am[1] || am[2] || am[3] || am[4] || am[5]); }
};

template <class Template>
static void set_loops(Template& t, const words& w) {
  t.ICNT0 = w.icnt[0]; t.ICNT1 = w.icnt[1]; t.ICNT2 = w.icnt[2];
  t.ICNT3 = w.icnt[3]; t.ICNT4 = w.icnt[4]; t.ICNT5 = w.icnt[5];
  t.DIM1 = w.dim[0]; t.DIM2 = w.dim[1]; t.DIM3 = w.dim[2]; t.DIM4 = w.dim[3]; t.DIM5 = w.dim[4];
  t.DECDIM1_WIDTH = w.width1;
  t.DECDIM2_WIDTH = w.width2;
}

template <class V>
static void give(const V& v) { std::fwrite(&v, 1, sizeof(v), stdout); }

int main() {
  /* Behind the memory nothing is readable, which a sanitizer sees. Aligned to its size it is a block for circular
   * addressing. */
  std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(::aligned_alloc(2 * half, 2 * half)), std::free);
  if (std::fread(memory.get(), 1, 2 * half, stdin) != 2 * half) return 1;
  words w;
  while (std::fread(&w, sizeof(w), 1, stdin) == 1) {
    __SE_TEMPLATE_v1 se = __gen_SE_TEMPLATE_v1();
    set_loops(se, w);
    se.LEZR_CNT = static_cast<uint8_t>(w.lezr_count);
    se.ELETYPE = static_cast<__SE_ELETYPE>(w.eletype);
    se.TRANSPOSE = static_cast<__SE_TRANSPOSE>(w.transpose);
    se.PROMOTE = static_cast<__SE_PROMOTE>(w.promote);
    se.VECLEN = static_cast<__SE_VECLEN>(w.veclen);
    se.ELEDUP = static_cast<__SE_ELEDUP>(w.eledup);
    se.GRPDUP = static_cast<__SE_GRPDUP>(w.grpdup);
    se.DECIM = static_cast<__SE_DECIM>(w.decim);
    se.DIMFMT = static_cast<__SE_DIMFMT>(w.dimfmt);
    se.DIR = static_cast<__SE_DIR>(w.dir);
    se.DECDIM1 = static_cast<__SE_DECDIM>(w.decdim1);
    se.DECDIM2 = static_cast<__SE_DECDIM>(w.decdim2);
    se.DECDIM1SD = static_cast<__SE_DECDIMSD>(w.decdim1sd);
    se.DECDIM2SD = static_cast<__SE_DECDIMSD>(w.decdim2sd);
    se.LEZR = static_cast<__SE_LEZR>(w.lezr);
    se.AM0 = static_cast<__SE_AM>(w.am[0]);
    se.AM1 = static_cast<__SE_AM>(w.am[1]);
    se.AM2 = static_cast<__SE_AM>(w.am[2]);
    se.AM3 = static_cast<__SE_AM>(w.am[3]);
    se.AM4 = static_cast<__SE_AM>(w.am[4]);
    se.AM5 = static_cast<__SE_AM>(w.am[5]);
    se.CBK0 = static_cast<uint8_t>(w.cbk0);
    se.CBK1 = static_cast<uint8_t>(w.cbk1);
    __SE1_OPEN(memory.get() + half + w.shift * (1 << w.eletype), se);
    const bool addresses = !w.transpose && !w.dir && !w.lezr && !w.decim && !w.eledup && w.linear();
    if (addresses) {
      __SA_TEMPLATE_v1 sa = __gen_SA_TEMPLATE_v1();
      set_loops(sa, w);
      sa.VECLEN = static_cast<__SA_VECLEN>(w.veclen);
      sa.DIMFMT = static_cast<__SA_DIMFMT>(w.dimfmt);
      sa.DECDIM1 = static_cast<__SA_DECDIM>(w.decdim1);
      sa.DECDIM2 = static_cast<__SA_DECDIM>(w.decdim2);
      sa.DECDIM1SD = static_cast<__SA_DECDIMSD>(w.decdim1sd);
      sa.DECDIM2SD = static_cast<__SA_DECDIMSD>(w.decdim2sd);
      __SA2_OPEN(sa);
    }
    /* Reads twice without, then with advance: the first must not move the stream. Two more lie behind the end. */
    for (int i = 0; i < w.reads + 2; ++i) {
      const c7x::uchar_vec peeked = c7x::strm_eng<1, c7x::uchar_vec>::get();
      const c7x::uchar_vec taken = c7x::strm_eng<1, c7x::uchar_vec>::get_adv();
      if (std::memcmp(&peeked, &taken, sizeof(taken)) != 0) return 2;
      give(taken);
      if (addresses) {
        give(static_cast<uint64_t>(c7x::strm_agen<2, c7x::char_vec>::get_vpred()));
        give(static_cast<uint64_t>(c7x::strm_agen<2, int16_t>::get_vpred()));
        give(static_cast<uint64_t>(__SA2_VPRED(c7x::int_vec)));
        /* Addresses may lie anywhere: only their differences from a pointer that is never read count. */
        const char* pointer = reinterpret_cast<const char*>(uintptr_t(1) << 40);
        const int64_t bytes = reinterpret_cast<const char*>(__SA2(c7x::char_vec, pointer)) - pointer;
        const int64_t words4 = reinterpret_cast<const char*>(c7x::strm_agen<2, c7x::int_vec>::get_adv(pointer)) - pointer;
        give(bytes);
        give(words4);
      }
    }
    __SE1_CLOSE();
    if (addresses) __SA2_CLOSE();
  }
  return 0;
}
