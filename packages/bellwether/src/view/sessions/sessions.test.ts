import { Retryable } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { negotiateTimeout, Sessions, type Session, type SessionKey } from './sessions.js'

function make() {
  const led: string[] = []
  const sessions = new Sessions((session) => led.push(session.id))
  const create = (sessionId: string, sourceId = 's', nowMs = 0, timeoutMs = 30_000, key?: SessionKey) =>
    sessions.create(
      {
        sessionId,
        taskId: sessionId,
        agentId: sessionId,
        sourceId,
        sourceUri: '',
        clientAddress: '',
        timeoutMs,
        createdAtMs: 0,
        inProcess: false,
        key,
      },
      nowMs,
    )
  const end = (session: Session, nowMs = 0) => sessions.end(session, 'disconnected', nowMs, () => undefined)
  /** Sweeps like the loop does, up to `toMs`. */
  const watch = (fromMs: number, toMs: number) => {
    let expired: Session[] = []
    for (let at = fromMs; at <= toMs; at += 500) {
      expired = sessions.expired(at, 500)
      for (const session of expired) end(session, at)
      if (expired.length > 0) return { at, expired }
    }
    return { at: toMs, expired }
  }
  return { sessions, led, create, end, watch }
}

describe('leadership', () => {
  it('[V1.1] the first session of a source leads; later sessions follow and never take over', () => {
    const { create, led, sessions } = make()
    const [one, two, three] = [create('1'), create('2'), create('3')]
    expect([one.role, two.role, three.role]).toEqual(['leader', 'follower', 'follower'])
    expect(sessions.leader('s')).toBe(one)
    expect(led).toEqual(['1'])
  })

  it('[V1.2] promotes the first follower in the same call that ends the leader', () => {
    const { create, end, sessions } = make()
    const [one, two, three] = [create('1'), create('2'), create('3')]
    end(one)
    expect([sessions.leader('s'), two.role, three.role]).toEqual([two, 'leader', 'follower'])
    end(three)
    expect(sessions.leader('s')).toBe(two)
    end(two)
    expect(sessions.leader('s')).toBeUndefined()
    expect(create('4').role).toBe('leader')
  })

  it('[V1.2] prefers a follower with recent contact', () => {
    const { create, end, sessions, watch } = make()
    const [one, quiet, lively] = [create('1'), create('2'), create('3')]
    watch(0, 20_000)
    sessions.recordContact(lively, 20_000)
    end(one, 20_000)
    expect([quiet.role, lively.role]).toEqual(['follower', 'leader'])
  })

  it('[V6.9] each source has its own leader', () => {
    const { create } = make()
    expect([create('1', 'x').role, create('2', 'y').role, create('3', 'x').role]).toEqual([
      'leader',
      'leader',
      'follower',
    ])
  })

  it('[V1.2] wakes the heartbeat of the promoted follower', async () => {
    const { create, end } = make()
    const [one, two] = [create('1'), create('2')]
    const news = two.waitForWork()
    end(one)
    await news
    expect(two.role).toBe('leader')
  })
})

describe('timeouts', () => {
  it('[V1.5] the session timeout is the longer of the sensor’s request and the server’s setting', () => {
    expect([
      negotiateTimeout(10, 30),
      negotiateTimeout(60, 30),
      negotiateTimeout(undefined, 30),
      negotiateTimeout(null, 30),
    ]).toEqual([30, 60, 30, 30])
  })

  it('[V1.1] a session ends after a silence longer than its timeout while sweeps run', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    create('2', 's', 0, 60_000)
    expect(watch(0, 30_000).expired).toEqual([])
    expect(watch(30_500, 31_000)).toEqual({ at: 30_500, expired: [one] })
    expect(sessions.leader('s')?.id).toBe('2')
  })

  it('[V1.1] a paused server ends no session and gives every session a full timeout again', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    watch(0, 5_000)
    // The server was paused for an hour; the heartbeats of that hour are still in its sockets.
    expect(sessions.expired(3_605_000, 500)).toEqual([])
    expect(watch(3_605_500, 3_635_000).expired).toEqual([])
    expect(watch(3_635_500, 3_636_000).expired).toEqual([one])
  })

  it('[V1.1] each heartbeat restarts the session timeout', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    watch(0, 29_000)
    sessions.recordContact(one, 29_000)
    expect(watch(29_500, 59_000).expired).toEqual([])
    expect(watch(59_500, 60_000).expired).toEqual([one])
  })
})

describe('commands', () => {
  it('[V4.1] the next heartbeat takes queued commands once and in order', () => {
    const session = make().create('1')
    session.command({ type: 'audit' })
    session.command({ type: 'snapshot' })
    expect(session.takeCommands()).toEqual([{ type: 'audit' }, { type: 'snapshot' }])
    expect(session.takeCommands()).toEqual([])
  })

  it('[V4.1] rejects commands above the limit if the sensor never takes them', () => {
    const session = make().create('1')
    for (let i = 0; i < 256; i += 1) session.command({ type: 'audit' })
    expect(() => session.command({ type: 'audit' })).toThrow(Retryable)
  })
})

describe('keys', () => {
  const keyOf = (id: string, isLive = () => true): SessionKey => ({ id, isLive })

  it('one key cannot use up the sessions of a view, and the view has a limit for all', () => {
    const { create, end } = make()
    const open = (at: number, key: SessionKey) => create(`${key.id}-${at}`, 's', 0, 604_800_000, key)
    const own = Array.from({ length: 900 }, (_, at) => open(at, keyOf('flood')))
    expect(() => open(900, keyOf('flood'))).toThrow('This key already has 900 sessions of the view')
    for (let at = 0; at < 100; at += 1) open(at, keyOf('other'))
    expect(() => open(100, keyOf('other'))).toThrow('The view already has 1000 sessions')
    end(own[5]!)
    end(own[6]!)
    open(100, keyOf('other'))
    open(901, keyOf('flood'))
  })

  it('names the sessions whose key was revoked', () => {
    const { create, sessions } = make()
    let isLive = true
    const mine = create(
      '1',
      's',
      0,
      1_000,
      keyOf('a', () => isLive),
    )
    create('2', 's', 0, 1_000, keyOf('b'))
    create('3')
    expect(sessions.revoked()).toEqual([])
    isLive = false
    expect(sessions.revoked()).toEqual([mine])
  })
})
