/** One round of the sentinel: gets the view's suspects, reads their metadata from disk and reports it. */
import { defined } from '@bellwether/base'
import type { SentinelFeedback } from '@bellwether/protocol'
import { sentinelTasks } from '@bellwether/protocol/pipe'
import type { PathStat } from '../scan/messages.js'
import { batchLength, type PipeContext, type Session } from './context.js'
import type { Progress } from './task.js'

const statusOf = ({ miss }: PathStat): string =>
  miss === undefined ? 'exists' : miss === 'gone' ? 'missing' : 'unknown'

export async function runSentinel(context: PipeContext, session: Session, progress: Progress): Promise<number> {
  const { sender, scanner, key } = context
  const options = { key, signal: progress.signal }
  const ask = `pipe/consistency/sentinel/tasks?session_id=${encodeURIComponent(session.id)}`
  const tasks = sentinelTasks.parse(await sender.send('GET', ask, undefined, options))
  const paths = tasks.paths ?? []
  for (let from = 0, to = 0; from < paths.length; from = to) {
    // JSON may escape each character of a path as six.
    for (let length = 0; to < paths.length && to < from + context.batchRows && length < batchLength; to += 1)
      length += paths[to]!.length * 6
    const stats = await scanner.statPaths(paths.slice(from, to), progress.signal)
    progress.moved()
    const feedback: SentinelFeedback = {
      type: 'suspect_update',
      session_id: session.id,
      ...defined({ source_id: tasks.source_id }),
      updates: stats.map((stat) => ({
        path: stat.path,
        status: statusOf(stat),
        ...defined({ mtime: stat.mtime, size: stat.size }),
      })),
    }
    await sender.send('POST', 'pipe/consistency/sentinel/feedback', feedback, options)
  }
  return paths.length
}
