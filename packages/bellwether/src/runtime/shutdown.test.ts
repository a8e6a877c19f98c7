import { expect, it, onTestFinished, vi } from 'vitest'
import { listenForShutdown } from './shutdown.js'

const log = { info: () => undefined, warn: () => undefined, error: () => undefined }

it('the second signal is announced before the process exits with the code of the signal', () => {
  const order: unknown[] = []
  const exit = vi.spyOn(process, 'exit').mockImplementation(((code: number) => order.push(code)) as never)
  const shutdown = listenForShutdown({ parentPipe: false, log, onExit: () => order.push('announced') })
  onTestFinished(() => {
    exit.mockRestore()
    shutdown.release()
  })
  process.emit('SIGINT', 'SIGINT')
  expect([shutdown.signal.aborted, order]).toEqual([true, []])
  process.emit('SIGINT', 'SIGINT')
  expect(order).toEqual(['announced', 130])
})
