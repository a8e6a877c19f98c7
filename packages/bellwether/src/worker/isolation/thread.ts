/** A guest in a thread of the worker's process. A crash of native code still ends the whole process; everything else ends the thread. */
import { startThread } from '@bellwether/base/thread'
import type { Guest, GuestEnd } from './guest.js'
import type { FromGuest } from './messages.js'

export function startThreadGuest(memoryMaxMb: number): Guest {
  const thread = startThread('./guest-main', import.meta.url, undefined, {
    resourceLimits: { maxOldGenerationSizeMb: memoryMaxMb },
  })
  // Only a turn that waits for its guest keeps the process running, not a spare thread.
  thread.unref()
  const ended = new Promise<GuestEnd>((resolve) => {
    thread.once('error', (error: Error & { readonly code?: string }) =>
      resolve(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? { how: 'out_of_memory' } : { how: 'error', error }),
    )
    thread.once('exit', (code) =>
      resolve({
        how: 'exit',
        text: `The thread of the agent ended with exit code ${code} before the function returned. Do not call process.exit.`,
      }),
    )
  })
  return {
    ended,
    send: (message) => thread.postMessage(message, []),
    onMessage: (take) => void thread.on('message', (message: FromGuest) => take(message)),
    end: async () => void (await thread.terminate()),
  }
}
