/** Runs one snapshot: reports every entry once and marks the end with a last request. A snapshot deletes nothing. */
import type { ScanReport } from '../scan/scanner.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import type { Progress } from './task.js'

export async function runSnapshot(context: PipeContext, session: Session, progress: Progress): Promise<ScanReport> {
  const { clock, watcher, scanner, log } = context
  // Start the watches before the scan, so that one of them sees every change during the scan.
  await progress.idle(watcher.watching(progress.signal))
  const report = await scanner.scan({
    mode: 'snapshot',
    from: ['/'],
    recursive: true,
    signal: progress.signal,
    onProgress: () => progress.moved(),
    onRows: async (rows) => {
      await ingest(context, session, rowsBody('snapshot', rows, clock.wallMs(), {}), progress.signal)
    },
  })
  await ingest(context, session, endBody('snapshot', {}), progress.signal)
  log.info({ pipe: context.name, ...report }, 'snapshot sent')
  return report
}
