"""A warp-specialized product of three tiles for tests: a producer, a warp that multiplies, four warps of an epilogue.

Rings of two stages of operands and of two accumulators.  Each stage has 128 rows of A and 16 of B, of 16 halves.
"""

from __future__ import annotations

from tests.unit.tensor_programs import descriptor, instruction

STAGE = 4608
TILES, BLOCKS = 3, 2
RING = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{
  .shared .align 1024 .b8 stages[9216];
  .shared .align 8 .b64 bars[8];
  .shared .align 4 .b32 slot;
  .reg .b32 %r<40>; .reg .b32 %v<16>; .reg .b64 %rd<16>; .reg .pred %p<9>;
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  ld.param.u64 %rd1, [source]; ld.param.u64 %rd3, [result];
  mov.u32 %r3, stages; mov.u32 %r4, bars; mov.u32 %r5, slot;
  setp.eq.u32 %p1, %r1, 0;
  @!%p1 bra INITIALIZED;
  mbarrier.init.shared::cta.b64 [%r4], 1;
  mbarrier.init.shared::cta.b64 [%r4+8], 1;
  mbarrier.init.shared::cta.b64 [%r4+16], 1;
  mbarrier.init.shared::cta.b64 [%r4+24], 1;
  mbarrier.init.shared::cta.b64 [%r4+32], 1;
  mbarrier.init.shared::cta.b64 [%r4+40], 1;
  mbarrier.init.shared::cta.b64 [%r4+48], 128;
  mbarrier.init.shared::cta.b64 [%r4+56], 128;
  fence.mbarrier_init.release.cluster;
INITIALIZED:
  setp.ne.u32 %p2, %r2, 4;
  @%p2 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 64;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  bar.sync 0;
  ld.shared.b32 %r6, [%r5];
  setp.lt.u32 %p3, %r2, 4;
  @%p3 bra EPILOGUE;
  elect.sync %r7|%p4, 0xffffffff;
  @!%p4 bra END;
  @%p2 bra PRODUCER;
  // multiply
  mov.u32 %r8, 0; mov.u32 %r9, 0;
TILE:
  and.b32 %r10, %r8, 1; shr.u32 %r11, %r8, 1; and.b32 %r11, %r11, 1;
  shl.b32 %r12, %r10, 3; add.u32 %r12, %r12, %r4;
  xor.b32 %r13, %r11, 1;
FREE:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12+48], %r13;
  @!%p5 bra FREE;
  shl.b32 %r14, %r10, 5; add.u32 %r14, %r14, %r6;
  mov.u32 %r15, 0;
BLOCK:
  and.b32 %r16, %r9, 1; shr.u32 %r17, %r9, 1; and.b32 %r17, %r17, 1;
  shl.b32 %r18, %r16, 3; add.u32 %r18, %r18, %r4;
LOADED:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r18], %r17;
  @!%p5 bra LOADED;
  mul.lo.u32 %r19, %r16, 4608; add.u32 %r19, %r19, %r3; shr.u32 %r19, %r19, 4; cvt.u64.u32 %rd4, %r19;
  mov.b64 %rd5, {A}; add.u64 %rd5, %rd5, %rd4;
  mov.b64 %rd6, {B}; add.u64 %rd6, %rd6, %rd4;
  mov.b32 %r20, {I};
  setp.ne.u32 %p6, %r15, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%r14], %rd5, %rd6, %r20, %p6;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r18+16];
  add.u32 %r9, %r9, 1; add.u32 %r15, %r15, 1;
  setp.lt.u32 %p7, %r15, 2;
  @%p7 bra BLOCK;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12+32];
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p7, %r8, 3;
  @%p7 bra TILE;
  bra.uni END;
PRODUCER:
  mov.u32 %r9, 0;
LOAD:
  and.b32 %r16, %r9, 1; shr.u32 %r17, %r9, 1; and.b32 %r17, %r17, 1; xor.b32 %r17, %r17, 1;
  shl.b32 %r18, %r16, 3; add.u32 %r18, %r18, %r4;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r18+16], %r17;
  @!%p5 bra EMPTY;
  mul.lo.u32 %r19, %r16, 4608; add.u32 %r19, %r19, %r3;
  mul.lo.u32 %r21, %r9, 4608; cvt.u64.u32 %rd4, %r21; add.u64 %rd4, %rd4, %rd1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r18], 4608;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r19], [%rd4], 4608, [%r18];
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p7, %r9, 6;
  @%p7 bra LOAD;
  bra.uni END;
EPILOGUE:
  mov.u32 %r8, 0;
READ:
  and.b32 %r10, %r8, 1; shr.u32 %r11, %r8, 1; and.b32 %r11, %r11, 1;
  shl.b32 %r12, %r10, 3; add.u32 %r12, %r12, %r4;
DONE:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12+32], %r11;
  @!%p5 bra DONE;
  shl.b32 %r14, %r10, 5; add.u32 %r14, %r14, %r6;
  shl.b32 %r22, %r2, 21; add.u32 %r14, %r14, %r22;
  tcgen05.ld.sync.aligned.32x32b.x16.b32
    {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7,%v8,%v9,%v10,%v11,%v12,%v13,%v14,%v15}, [%r14];
  tcgen05.wait::ld.sync.aligned;
  mbarrier.arrive.shared::cta.b64 _, [%r12+48];
  mad.lo.u32 %r23, %r8, 128, %r1; mul.lo.u32 %r23, %r23, 64; cvt.u64.u32 %rd7, %r23; add.u64 %rd7, %rd7, %rd3;
  st.global.v4.b32 [%rd7], {%v0,%v1,%v2,%v3}; st.global.v4.b32 [%rd7+16], {%v4,%v5,%v6,%v7};
  st.global.v4.b32 [%rd7+32], {%v8,%v9,%v10,%v11}; st.global.v4.b32 [%rd7+48], {%v12,%v13,%v14,%v15};
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p7, %r8, 3;
  @%p7 bra READ;
END:
  bar.warp.sync 0xffffffff;
  bar.sync 0;
  @%p2 bra EXIT;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;
EXIT:
  ret;
}
"""
for _name, _value in (
    ("{A}", descriptor(0, 128, 256)), ("{B}", descriptor(4096, 128, 256)), ("{I}", instruction(128, 16)),
):  # fmt: skip
    RING = RING.replace(_name, hex(_value))
