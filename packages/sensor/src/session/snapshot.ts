/** One snapshot: everything that is there, told once; the last request says that it was all. Deletes nothing. */
import type { ScanReport } from '../scan/scanner.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import type { Progress } from './task.js'

export async function runSnapshot(context: PipeContext, session: Session, progress: Progress): Promise<ScanReport> {
  const { clock, source, scanner, log } = context
  // Watches first, then the scan: what changes meanwhile is seen by one of them.
  await progress.rest(source.watching(progress.signal))
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
  log.info({ pipe: context.name, ...report }, 'snapshot done')
  return report
}
