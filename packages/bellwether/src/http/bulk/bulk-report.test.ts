/** Rows that fail: the others are changed, and the audit log names each. */
import { Retryable, Terminal } from '@bellwether/protocol'
import type { FastifyRequest } from 'fastify'
import { expect, it } from 'vitest'
import { quietLog } from '../../../test/support/quiet-log.js'
import { runBulk, type BulkRow } from './bulk-report.js'

interface Row extends BulkRow {
  readonly id: string
}

it('a row that fails or no longer applies leaves the others as they are, and only changed and failed rows are audited', async () => {
  const rows = ['done', 'gone', 'away', 'broken', 'last'].map((id): Row => ({ id, result: 'affected', reason: null }))
  const request = { auditedChanges: null } as FastifyRequest
  const skipped: Row = { id: 'skipped', result: 'unaffected', reason: 'no' }
  const acted: string[] = []
  const report = await runBulk(
    request,
    { dry_run: false },
    {
      rows: [...rows, skipped],
      more: false,
      atOnce: 2,
      async act({ id }) {
        acted.push(id)
        if (id === 'gone') throw new Terminal('it has ended', { code: 'ended' })
        if (id === 'away') throw new Retryable('the database is unavailable', { code: 'database_down', afterMs: 1 })
        if (id === 'broken') throw new Error('a defect')
        return {}
      },
      alone: ({ id }) => ({ method: 'POST', path: id }),
      log: quietLog,
    },
  )
  expect(acted).toEqual(['done', 'gone', 'away', 'broken', 'last'])
  expect(report).toMatchObject({ dry_run: false, affected: 2, unaffected: 2, failed: 2 })
  expect(report.rows.map(({ id, result, reason }) => [id, result, reason])).toEqual([
    ['done', 'affected', null],
    ['gone', 'unaffected', 'it has ended'],
    ['away', 'failed', 'the database is unavailable'],
    ['broken', 'failed', 'a defect'],
    ['last', 'affected', null],
    ['skipped', 'unaffected', 'no'],
  ])
  expect(request.auditedChanges?.map(({ path, status, code }) => [path, status, code])).toEqual([
    ['done', 200, null],
    ['away', 503, 'database_down'],
    ['broken', 503, 'internal'],
    ['last', 200, null],
  ])
})
