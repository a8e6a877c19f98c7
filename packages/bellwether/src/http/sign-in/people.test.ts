import { describe, expect, it } from 'vitest'
import { personOf, readRules, ruleFor } from './people.js'

const rules = readRules({ admin: 'bosses', operator: 'ops=demo, ops', reader: 'ada@example.com, /staff , urn:x:y' })
const roleOf = (claims: object) => {
  const rule = ruleFor({ sub: '1', ...claims }, rules, 'groups')
  return rule && [rule.role, rule.project]
}
const email = (address: unknown, isVerified: unknown = true) => ({ email: address, email_verified: isVerified })

describe('ruleFor', () => {
  it.each([
    [{ groups: ['staff', 'bosses'] }, ['admin', undefined]],
    [{ groups: 'bosses' }, ['admin', undefined]],
    [{ groups: ['ops'] }, ['operator', 'demo']],
    [{ groups: ['/staff'] }, ['reader', undefined]],
    [{ groups: ['urn:x:y'] }, ['reader', undefined]],
    [email('Ada@Example.COM'), ['reader', undefined]],
  ])('%j has the role of the first entry that matches', (claims, expected) => {
    expect(roleOf(claims)).toEqual(expected)
  })

  it.each([
    {},
    { groups: [] },
    { groups: ['Bosses', 'bosses ', 'boss', 'staff'] },
    { groups: 'bosses,ops' },
    { groups: { bosses: true } },
    { groups: [['bosses']] },
    { groups: ['ada@example.com'] },
    { role: 'bosses', roles: ['bosses'] },
    email('ada@example.com', false),
    email('ada@example.com', 'true'),
    { email: 'ada@example.com' },
    email(['ada@example.com']),
    email('ada@example.com.evil'),
    email('bosses'),
  ])('%j has no role', (claims) => {
    expect(roleOf(claims)).toBeUndefined()
  })

  it('an e-mail address with a letter that becomes ASCII in lower case is not the address in ASCII', () => {
    const [rule] = readRules({ admin: 'kim@example.com' })
    expect('\u212aim@example.com'.toLowerCase()).toBe('kim@example.com')
    expect(ruleFor({ sub: '1', ...email('\u212aim@example.com') }, [rule!], 'groups')).toBeUndefined()
  })

  it('reads groups only from own properties of the claims', () => {
    for (const claim of ['__proto__', 'constructor', 'toString'])
      expect(ruleFor({ sub: '1' }, readRules({ admin: 'Object' }), claim)).toBeUndefined()
  })
})

describe('readRules', () => {
  it.each(['a=b=c', '=demo', 'a=', 'a=Not a project'])('rejects the entry %j', (entry) => {
    expect(() => readRules({ operator: entry })).toThrow('"oidc.operators" must have entries')
  })
})

describe('personOf', () => {
  it.each([
    [{ sub: '1' }, '1'],
    [{ sub: '1', name: 'Ada Lovelace' }, 'Ada Lovelace <1>'],
    [{ sub: '1', preferred_username: 'ada' }, 'ada <1>'],
    [{ sub: '1', name: 'Zoë O’Neil-Ng', ...email('zoe@example.com') }, 'Zoë O’Neil-Ng <zoe@example.com>'],
    [{ sub: '1', name: 'Boss <boss@example.com>\u001b[2J\u202e\n' }, 'Boss bossexample.com2J <1>'],
    [{ sub: '1', name: 7 }, '1'],
    [{ sub: '1', name: '\ud83d'.repeat(100) }, '1'],
    [{ sub: '1', name: 'x'.repeat(1_000) }, `${'x'.repeat(60)} <1>`],
  ])('%j is shown as %j: what the provider guarantees comes last', (claims, name) => {
    expect(personOf(claims)).toEqual({ id: 'oidc:1', name })
  })

  it.each(['', 'a b', 'a\n', '\u0000', 'ä', 'x'.repeat(256)])('refuses the subject %j', (sub) => {
    expect(personOf({ sub })).toBeUndefined()
  })
})
