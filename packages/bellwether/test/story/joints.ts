/**
 * The joints of the story: between each pair of steps one or more processes are killed with SIGKILL. A joint prepares its moment, which
 * a log line, an event or a request shows, kills, and restarts. What must be true afterwards is the same for all of them.
 */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Installation } from './installation.js'

export interface Joint {
  readonly name: string
  /** Where the evidence must come from: the disk answers if the view restarted during the run. */
  readonly from: 'view' | 'disk'
  /** Adds the task and kills at the joint. */
  readonly act: (s: Installation, task: string) => Promise<void>
}

const isStarted = ({ type }: { readonly type: string }) => type === 'task_started'

const afterClaim: Joint = {
  name: 'the autopilot after the board leased the task, before its intent line',
  from: 'view',
  async act(s, task) {
    const token = s.evidence.next('GET')
    await s.addTask(task)
    // It asks for the change token between the two lines.
    await token
    await s.kill(s.autopilot)
    await s.line(task, ({ type }) => type === 'task_claimed')
    expect(s.has(task, isStarted)).toBe(false)
    await s.autopilot.start()
  },
}

const afterIntent: Joint = {
  name: 'the autopilot after the intent line, before the turn exists',
  from: 'view',
  async act(s, task) {
    await s.db.transaction(async (tx) => {
      // The spawn opens the purse first, and waits for this lock.
      await tx.query({ text: 'lock table state.budgets in share row exclusive mode' })
      await s.addTask(task)
      const { eventId } = await s.line(task, isStarted)
      await s.kill(s.autopilot)
      const text = 'select 1 from state.agent_inbox where inbox_id = $1'
      expect(await s.db.query({ text, values: [eventId] })).toEqual([])
    })
    await s.autopilot.start()
  },
}

const afterEnqueue: Joint = {
  name: 'autopilot, server and PMO after the turn is enqueued, before a worker claims it',
  from: 'disk',
  async act(s, task) {
    await s.kill(s.worker)
    await s.addTask(task)
    await s.line(task, ({ payload }) => typeof payload['agentTurnId'] === 'string')
    await s.kill(s.autopilot, s.server, s.pmo)
    await Promise.all([s.server.start(), s.pmo.start(), s.autopilot.start(), s.worker.start()])
  },
}

const whileRunning: Joint = {
  name: 'the worker while the turn runs',
  from: 'view',
  async act(s, task) {
    await s.addTaskUpTo(task, 'plan')
    await s.kill(s.worker)
    await s.openGate(task, 'plan')
    await s.worker.start()
  },
}

const whileChildRuns: Joint = {
  name: 'worker and PMO while the turn waits for its child',
  from: 'view',
  async act(s, task) {
    await s.addTaskUpTo(task, 'help')
    await s.kill(s.worker, s.pmo)
    await s.openGate(task, 'help')
    await Promise.all([s.worker.start(), s.pmo.start()])
  },
}

const afterDelivery: Joint = {
  name: 'the autopilot after the turn delivered, before the board noticed',
  from: 'view',
  async act(s, task) {
    await s.addTaskUpTo(task, 'write')
    const { payload } = await s.line(task, (line) => typeof line.payload['agentTurnId'] === 'string')
    s.autopilot.cli.signal('SIGSTOP')
    await s.openGate(task, 'write')
    await s.ended(String(payload['agentTurnId']))
    await s.kill(s.autopilot)
    await s.autopilot.start()
  },
}

/** The board's request to the view for evidence of the task. */
async function heldRequest(s: Installation, task: string) {
  const request = s.evidence.next('POST')
  await s.addTask(task)
  return request
}

const evidenceSensor: Joint = {
  name: 'the sensor while the view is asked for evidence',
  from: 'view',
  async act(s, task) {
    const held = await heldRequest(s, task)
    await s.kill(s.sensor)
    await held.forward()
    await s.sensor.start()
  },
}

const evidenceServer: Joint = {
  name: 'the server while the view waits for the sensor to prove the file',
  from: 'disk',
  async act(s, task) {
    const held = await heldRequest(s, task)
    s.sensor.cli.signal('SIGSTOP')
    await held.forward()
    await s.kill(s.server)
    expect(held.answered).toBe(false)
    await s.server.start()
    s.sensor.cli.signal('SIGCONT')
  },
}

const afterAcceptance: Joint = {
  name: 'the autopilot after the acceptance, before the log is in the snapshot',
  from: 'view',
  async act(s, task) {
    await s.addTaskUpTo(task, 'write')
    // A folder in its place: the snapshot cannot be replaced until it is gone.
    const snapshot = join(s.root, 'state', 'tasks.snapshot.json')
    await rename(snapshot, `${snapshot}.before`)
    await mkdir(snapshot)
    await writeFile(join(snapshot, 'obstacle'), '')
    await s.openGate(task, 'write')
    await s.line(task, ({ type }) => type === 'task_done')
    await s.kill(s.autopilot)
    await rm(snapshot, { recursive: true })
    await rename(`${snapshot}.before`, snapshot)
    await s.autopilot.start()
  },
}

/** In the order of the story. */
export const joints = {
  afterClaim,
  afterIntent,
  afterEnqueue,
  whileRunning,
  whileChildRuns,
  afterDelivery,
  evidenceSensor,
  evidenceServer,
  afterAcceptance,
} as const
