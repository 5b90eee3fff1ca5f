"""Programs whose clusters take the work of others, for tests."""

from __future__ import annotations

STEAL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{
  .shared .align 16 .b8 response[16];
  .shared .align 8 .b64 full;
  .shared .align 4 .b32 total;
  .reg .b32 %t, %tile, %parity, %to, %bar, %more, %v; .reg .pred %first, %done, %p; .reg .b64 %out, %o; .reg .b128 %q;
  ld.param.u64 %out, [result];
  mov.u32 %t, %tid.x; mov.u32 %tile, %ctaid.x; mov.u32 %parity, 0;
  mov.u32 %to, response; mov.u32 %bar, full;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  @%first st.shared.b32 [total], 7;
LOOP:
  bar.sync 0;
  @!%first bra WORK;
  fence.proxy.async.shared::cta;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%to], [%bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;
WORK:
  mul.wide.u32 %o, %t, 4;
  mad.wide.u32 %o, %tile, 256, %o;
  add.u64 %o, %o, %out;
  st.global.u32 [%o], %tile;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %parity;
  @!%done bra WAIT;
  xor.b32 %parity, %parity, 1;
  ld.shared.b128 %q, [%to];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %q;
  @%p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%tile, _, _, _}, %q;
  @%p bra LOOP;
  ret;
}
"""
"""a CTA of 64 threads for each row of 64 numbers; one thread requests the next row while all store"""
ARRIVE = "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%empty];\n"
LOADS = "  ld.shared.b128 %q, [%to];\n  fence.proxy.async.shared::cta;\n"
ARM = "  mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%remote], 16;\n"
BOTH = "  setp.lt.u32 %p, %t, 2;\n"
PAIRS = f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
.reqnctapercluster 2
{{
  .shared .align 16 .b8 response[16];
  .shared .align 8 .b64 bars[2];
  .reg .b32 %t, %warp, %rank, %tile, %parity, %free, %to, %full, %empty, %remote, %x; .reg .b64 %out, %o; .reg .b128 %q;
  .reg .pred %first, %done, %p, %leads, %schedules, %works, %more;
  ld.param.u64 %out, [result];
  mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; mov.u32 %rank, %cluster_ctarank; mov.u32 %tile, %clusterid.x;
  mov.u32 %to, response; mov.u32 %full, bars; add.u32 %empty, %full, 8;
  mov.u32 %parity, 0;
  setp.eq.u32 %first, %t, 0;
  setp.eq.u32 %leads, %rank, 0;
  setp.eq.u32 %p, %warp, 0;
  and.pred %schedules, %leads, %p;
  setp.eq.u32 %works, %warp, 1;
  @%first mbarrier.init.shared::cta.b64 [%full], 1;
  @%first mbarrier.init.shared::cta.b64 [%empty], 3;
  @%first fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mapa.shared::cluster.u32 %empty, %empty, 0;
  @!%schedules bra CHECK;
SCHEDULE:
  xor.b32 %free, %parity, 1;
FREE:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [bars+8], %free;
  @!%done bra FREE;
{BOTH}  @!%p bra ARMED;
  mapa.shared::cluster.u32 %remote, %full, %t;
{ARM}ARMED:
  bar.warp.sync -1;
  @%first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128
    [%to], [%full];
  bra WAIT;
CHECK:
  @!%works bra END;
WORK:
  and.b32 %x, %t, 31;
  mad.lo.u32 %x, %rank, 32, %x;
  mad.lo.u32 %x, %tile, 64, %x;
  mad.wide.u32 %o, %x, 4, %out;
  st.global.u32 [%o], %tile;
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [%full], %parity;
  @!%done bra WAIT;
  xor.b32 %parity, %parity, 1;
{LOADS}  bar.warp.sync -1;
  and.b32 %x, %t, 31;
  setp.ne.u32 %done, %x, 0;
  @%done bra NEXT;
{ARRIVE}NEXT:
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %more, %q;
  @!%more bra END;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %tile, %q;
  shr.u32 %tile, %tile, 1;
  @%schedules bra SCHEDULE;
  bra WORK;
END:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}}
"""
"""a pair of CTAs for each row of 64 numbers: a warp of the first one requests rows, a warp of each one works"""
