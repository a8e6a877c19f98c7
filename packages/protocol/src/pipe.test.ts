import { describe, expect, it } from 'vitest'
import { heartbeatRequest, ingestRequest, pipeCommand, sessionRequest } from './pipe.js'
import { pipeLimits } from './pipe-vocabulary.js'

describe('the pipe', () => {
  it('[V4.1] reads the commands it knows; others are for the receiver to skip', () => {
    const scan = { type: 'scan', path: '/a', recursive: true, job_id: 'j', later: 1 }
    expect(pipeCommand.parse(scan)).toEqual(scan)
    expect(pipeCommand.safeParse({ type: 'dance' }).success).toBe(false)
    expect(pipeCommand.safeParse({ type: 'scan', path: '/a' }).success).toBe(false)
  })

  it('[V1.5] ignores what it does not know in envelopes, and refuses what is wrong in what it knows', () => {
    expect(sessionRequest.parse({ task_id: 't', client_info: null, extra: 1 })).toMatchObject({ task_id: 't' })
    for (const wrong of [
      {},
      { task_id: '' },
      { task_id: 't', session_timeout_seconds: -1 },
      { task_id: 't', client_info: 5 },
    ])
      expect(sessionRequest.safeParse(wrong).success).toBe(false)
    expect(heartbeatRequest.safeParse({ can_realtime: 'yes' }).success).toBe(false)
  })

  it('[V2.2] keeps what an ingest request says about itself, known or not', () => {
    const request = {
      events: [{}],
      source_type: 'audit',
      is_final: true,
      metadata: { audit_id: 'a', complete: false, more: 1 },
    }
    expect(ingestRequest.parse(request)).toEqual(request)
    const many = { events: Array.from({ length: pipeLimits.rowsMax + 1 }), source_type: 'message' }
    expect(ingestRequest.safeParse(many).success).toBe(false)
    expect(ingestRequest.safeParse({ events: [], source_type: 'message', metadata: { seq: 0 } }).success).toBe(false)
  })
})
