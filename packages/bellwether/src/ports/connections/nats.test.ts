import { describe, expect, it } from 'vitest'
import { connectionOptions } from './nats.js'

describe('NATS connection options', () => {
  it('accepts a comma-separated list, URLs without a scheme, credentials and TLS', () => {
    expect(connectionOptions('nats://a:4222, b:4333,')).toEqual({ servers: ['a:4222', 'b:4333'] })
    expect(connectionOptions(['nats://me:p%40ss@a'])).toEqual({ servers: ['a'], user: 'me', pass: 'p@ss' })
    expect(connectionOptions('tls://token@a:1')).toEqual({ servers: ['a:1'], token: 'token', tls: {} })
  })

  it('rejects an invalid URL without repeating its password', () => {
    expect(() => connectionOptions('nats://me:secret@:::')).toThrow(
      expect.objectContaining({ code: 'invalid_url', message: expect.not.stringContaining('secret') as unknown }),
    )
  })
})
