"""Programs of `tcgen05` for tests: shared memory from an array, some instructions of one thread, tensor memory to an
array."""

from __future__ import annotations

HEADER = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 words, .param .u64 result)
{{
  .shared .align 1024 .b8 tile[{shared}];
  .shared .align 8 .b64 bar;
  .shared .align 4 .b32 slot;
  .reg .b32 %r<32>; .reg .b32 %v<{registers}>; .reg .b64 %rd<16>; .reg .pred %p<8>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [source]; ld.param.u64 %rd2, [words]; ld.param.u64 %rd3, [result];
  mov.u32 %r2, slot; mov.u32 %r3, tile; mov.u32 %r4, bar;
  setp.lt.u32 %p1, %r1, 32;
  setp.eq.u32 %p2, %r1, 0;
  @!%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], {columns};
ALLOCATED:
  shl.b32 %r5, %r1, 4;
COPY:
  cvt.u64.u32 %rd4, %r5;
  add.u64 %rd4, %rd1, %rd4;
  ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [%rd4];
  add.u32 %r10, %r3, %r5;
  st.shared.v4.b32 [%r10], {{%r6, %r7, %r8, %r9}};
  add.u32 %r5, %r5, 2048;
  setp.lt.u32 %p3, %r5, {shared};
  @%p3 bra COPY;
  fence.proxy.async.shared::cta;
  @%p2 mbarrier.init.shared::cta.b64 [%r4], 1;
  bar.sync 0;
  ld.shared.b32 %r11, [%r2];
"""
"""32 columns, or as many as it says, at %r11; `%p2` is the first thread"""
FILL = """
  mul.lo.u32 %r12, %r1, {bytes};
  cvt.u64.u32 %rd5, %r12;
  add.u64 %rd5, %rd2, %rd5;
  {loads}
  add.u32 %r13, %r11, {column};
  tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r13], {{{values}}};
  tcgen05.wait::st.sync.aligned;
  bar.sync 0;
"""
"""columns of tensor memory from an array of a row for each lane"""
ISSUE = """
  @!%p2 bra WAIT;
  {issued}
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0;
  @!%p4 bra WAIT;
"""
DUMP = """
  tcgen05.ld.sync.aligned.{shape}.x{repeat}{packed}.b32 {{{values}}}, [%r14]{distance};
  tcgen05.wait::ld.sync.aligned;
  mul.lo.u32 %r12, %r1, {bytes};
  cvt.u64.u32 %rd5, %r12;
  add.u64 %rd5, %rd3, %rd5;
  {stores}
"""
FOOTER = """
  bar.sync 0;
  @!%p1 bra END;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, {columns};
END:
  ret;
}}
"""


def values(count: int) -> str:
    return ", ".join(f"%v{n}" for n in range(count))


def fill(count: int, column: int) -> str:
    """Write so many columns from the array of words."""
    loads = "\n  ".join(f"ld.global.b32 %v{n}, [%rd5+{4 * n}];" for n in range(count))
    return FILL.format(bytes=4 * count, loads=loads, column=column, count=count, values=values(count))


def dump(
    count: int, column: int = 0, shape: str = "32x32b", repeat: int = 0, packed: str = "", distance: str = ""
) -> str:
    """Read registers, and store them."""
    stores = "\n  ".join(f"st.global.b32 [%rd5+{4 * n}], %v{n};" for n in range(count))
    text = DUMP.format(
        shape=shape, repeat=repeat or count, packed=packed, values=values(count), bytes=4 * count, stores=stores,
        distance=distance,
    )  # fmt: skip
    return f"\n  add.u32 %r14, %r11, {column};" + text


def program(*parts: str, shared: int = 8192, columns: int = 32) -> str:
    """Return a program of such parts."""
    return (
        HEADER.format(shared=shared, columns=columns, registers=128) + "".join(parts) + FOOTER.format(columns=columns)
    )


def descriptor(offset: int, leading: int, stride: int, swizzle: int = 0) -> int:
    """Return a descriptor of shared memory, but for where `tile` begins."""
    return offset >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61


def instruction(m: int, n: int, *, d: int = 1, a: int = 0, b: int = 0, more: int = 0) -> int:
    """Return an instruction descriptor of a kind without scale factors."""
    return d << 4 | a << 7 | b << 10 | n // 8 << 17 | m // 16 << 24 | more


def with_descriptors(a: int, b: int, i: int) -> str:
    """Put descriptors into %rd6 and %rd7, and %r15."""
    return f"""
  and.b32 %r16, %r3, 0x3ffff; shr.u32 %r16, %r16, 4; cvt.u64.u32 %rd8, %r16;
  mov.b64 %rd6, {a:#x}; add.u64 %rd6, %rd6, %rd8;
  mov.b64 %rd7, {b:#x}; add.u64 %rd7, %rd7, %rd8;
  mov.b32 %r15, {i:#x};
  setp.ne.u32 %p5, %r1, %r1; setp.eq.u32 %p6, %r1, %r1;
"""
