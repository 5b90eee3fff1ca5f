"""A program of a pair of CTAs for tests: each fills its half of A and B, the even one multiplies, both load D."""

from __future__ import annotations

PAIR = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar;
  .shared .align 4 .b32 slot;
  .reg .b32 %r<32>; .reg .b32 %v<16>; .reg .b64 %rd<16>; .reg .pred %p<8>; .reg .b16 %h<2>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r30, %cluster_ctarank;
  ld.param.u64 %rd1, [source]; ld.param.u64 %rd3, [result];
  mov.u32 %r2, slot; mov.u32 %r3, tile; mov.u32 %r4, bar;
  setp.lt.u32 %p1, %r1, 32;
  setp.eq.u32 %p2, %r1, 0;
  setp.eq.u32 %p7, %r30, 0;
  and.pred %p7, %p7, %p2;
  @%p2 mbarrier.init.shared::cta.b64 [%r4], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r2], 32;
  tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
ALLOCATED:
  mul.lo.u32 %r6, %r30, 8192; cvt.u64.u32 %rd4, %r6; add.u64 %rd1, %rd1, %rd4;
  shl.b32 %r5, %r1, 4;
COPY:
  cvt.u64.u32 %rd4, %r5;
  add.u64 %rd4, %rd1, %rd4;
  ld.global.v4.b32 {%r6, %r7, %r8, %r9}, [%rd4];
  add.u32 %r10, %r3, %r5;
  st.shared.v4.b32 [%r10], {%r6, %r7, %r8, %r9};
  add.u32 %r5, %r5, 2048;
  setp.lt.u32 %p3, %r5, 8192;
  @%p3 bra COPY;
  fence.proxy.async.shared::cta;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared.b32 %r11, [%r2];
  and.b32 %r16, %r3, 0x3ffff; shr.u32 %r16, %r16, 4; cvt.u64.u32 %rd8, %r16;
  mov.b64 %rd6, 0x401000080000; add.u64 %rd6, %rd6, %rd8;
  mov.b64 %rd7, 0x401000080100; add.u64 %rd7, %rd7, %rd8;
  mov.b32 %r15, 0x10040010;
  setp.ne.u32 %p5, %r1, %r1;
  @!%p7 bra WAIT;
  tcgen05.mma.cta_group::2.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;
  mov.b16 %h1, 3;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4], %h1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0;
  @!%p4 bra WAIT;
  tcgen05.ld.sync.aligned.32x32b.x16.b32
    {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7,%v8,%v9,%v10,%v11,%v12,%v13,%v14,%v15}, [%r11];
  tcgen05.wait::ld.sync.aligned;
  mad.lo.u32 %r12, %r30, 128, %r1; mul.lo.u32 %r12, %r12, 64; cvt.u64.u32 %rd5, %r12; add.u64 %rd5, %rd3, %rd5;
  st.global.v4.b32 [%rd5], {%v0,%v1,%v2,%v3}; st.global.v4.b32 [%rd5+16], {%v4,%v5,%v6,%v7};
  st.global.v4.b32 [%rd5+32], {%v8,%v9,%v10,%v11}; st.global.v4.b32 [%rd5+48], {%v12,%v13,%v14,%v15};
  bar.sync 0;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 bra END;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r11, 32;
END:
  ret;
}
"""
