/** One round of the sentinel: asks which paths the view doubts, looks at them, and says what is there. */
import { sentinelTasks, type SentinelFeedback } from '@bellwether/protocol'
import type { Looked } from '../scan/messages.js'
import type { PipeContext, Session } from './context.js'
import type { Progress } from './task.js'

const statusOf = ({ miss }: Looked): string => (miss === undefined ? 'exists' : miss === 'gone' ? 'missing' : 'unknown')

export async function runSentinel(context: PipeContext, session: Session, progress: Progress): Promise<number> {
  const { sender, scanner, key } = context
  const how = { key, signal: progress.signal }
  const ask = `pipe/consistency/sentinel/tasks?session_id=${encodeURIComponent(session.id)}`
  const tasks = sentinelTasks.parse(await sender.send('GET', ask, undefined, how))
  const paths = tasks.paths ?? []
  for (let from = 0; from < paths.length; from += context.batchRows) {
    const looks = await scanner.look(paths.slice(from, from + context.batchRows), progress.signal)
    progress.moved()
    const feedback: SentinelFeedback = {
      type: 'suspect_update',
      session_id: session.id,
      ...(tasks.source_id === undefined ? {} : { source_id: tasks.source_id }),
      updates: looks.map((look) => ({
        path: look.path,
        status: statusOf(look),
        ...(look.mtime === undefined ? {} : { mtime: look.mtime }),
        ...(look.size === undefined ? {} : { size: look.size }),
      })),
    }
    await sender.send('POST', 'pipe/consistency/sentinel/feedback', feedback, how)
  }
  return paths.length
}
