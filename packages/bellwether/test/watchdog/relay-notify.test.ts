/** The relay on PostgreSQL notify, which stores nothing: the relay's position is a row of the database. */
import { beforeEach, expect, it } from 'vitest'
import { deferred } from '@bellwether/base'
import { openRelay } from '../../src/pmo/relay.js'
import type { Ring } from '../../src/ports/bell/bell.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import { notifyStream } from '../../src/ports/stream/notify.js'
import { kernelPerTest } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { eventsPerTurn, outbox, produce, relayed } from '../support/relay.js'
import { until } from '../support/until.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerTest()
beforeEach(async () => {
  await t.agents('ann')
})

it('rings for each event in order and stores its position, from which another relay continues', async () => {
  const bell = notifyBell({ url: t.url, log: quietLog })
  const heard: Ring[] = []
  const listening = await bell.listen('bw.v1.*.*.evt.>', (ring) => ring && heard.push(ring))
  const stream = notifyStream({ bell })
  await produce(t, 10)
  await relayed(openRelay({ db: t.db, log: quietLog, stream }), 10 * eventsPerTurn)
  await produce(t, 3)
  await relayed(openRelay({ db: t.db, log: quietLog, stream }), 3 * eventsPerTurn)
  await until('all rings', async () => (heard.length >= 13 * eventsPerTurn ? true : undefined))
  expect(heard.map((ring) => ring.payload.cursor)).toEqual((await outbox(t)).map((event) => event.cursor))
  await listening.stop()
  await bell.close()
})

it('a relay that is behind does not move the stored position back', async () => {
  const nowhere = notifyStream({ bell: silentBell })
  await produce(t, 1)
  const way = deferred<void>()
  const reached = deferred<void>()
  const publish = async () => {
    reached.resolve()
    await way.promise
    return 'ok' as const
  }
  const slow = openRelay({ db: t.db, log: quietLog, stream: { ...nowhere, publish } })
  const slowStep = slow.step()
  await reached.promise
  await produce(t, 2)
  await relayed(openRelay({ db: t.db, log: quietLog, stream: nowhere }), 3 * eventsPerTurn)
  way.resolve()
  await slowStep
  expect(await openRelay({ db: t.db, log: quietLog, stream: nowhere }).step()).toBe(0)
  expect(
    await t.one(`select xid::text || ':' || event_id as at from state.event_cursors where name = 'relay'`),
  ).toEqual({ at: (await outbox(t)).at(-1)!.cursor })
})
