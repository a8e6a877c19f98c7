import { systemRandom } from '@bellwether/base'
import { expect, it } from 'vitest'
import { handClock } from '../../../test/support/hand-clock.js'
import { openProviderLogins } from './provider-logins.js'

/** A provider that confirms everything: what is refused here is refused by the server itself. */
function open() {
  const clock = handClock()
  let count = 0
  const logins = openProviderLogins({
    provider: {
      start: async () => ({ url: '', state: `s${(count += 1)}`, nonce: '', verifier: '' }),
      finish: async ({ state }) => ({ sub: state }),
    },
    clock,
    random: systemRandom,
  })
  return { clock, logins }
}
const refused = { code: 'unauthorized' }

it('a sign-in works once, also for requests at the same time', async () => {
  const { logins } = open()
  const { secret } = await logins.start()
  const results = await Promise.allSettled([1, 2, 3].map(() => logins.finish('state=s1', secret)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(logins.pending).toBe(0)
})

it('a sign-in ends after ten minutes', async () => {
  const { logins, clock } = open()
  const { secret } = await logins.start()
  await clock.advance(599_999)
  const { secret: other } = await logins.start()
  await clock.advance(1)
  await expect(logins.finish('state=s1', secret)).rejects.toMatchObject(refused)
  expect(await logins.finish('state=s2', other)).toEqual({ sub: 's2' })
})

it('keeps at most 5,000 sign-ins that no one finishes, the newest ones, and none for longer than ten minutes', async () => {
  const { logins, clock } = open()
  const first = await logins.start()
  const second = await logins.start()
  for (let more = 0; more < 4_999; more += 1) await logins.start()
  expect(logins.pending).toBe(5_000)
  await expect(logins.finish('state=s1', first.secret)).rejects.toMatchObject(refused)
  expect(await logins.finish('state=s2', second.secret)).toEqual({ sub: 's2' })
  await clock.advance(600_000)
  await logins.start()
  expect(logins.pending).toBe(1)
})
