/** Store session: the session of the program that runs a turn, so that a later run resumes it. A lost fence writes nothing. */
import type { Queryable } from '../../../ports/database/database.js'
import { plainText } from '../../content.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface ProgramSession {
  /** The preset whose program made the session. */
  readonly program: string
  readonly programSessionId: string
  readonly folder: string
  /** Whether the turn resumed a session that an earlier turn had made. */
  readonly resumed: boolean
  /** Whether the program has answered the prompt of this turn. */
  readonly answered: boolean
  /** The last message to the turn that the session contains for certain. */
  readonly messagesSeen: number
}

export async function storeSession(db: Queryable, fence: Fence, session: ProgramSession): Promise<'stored' | 'stale'> {
  const [verdict] = await call<Verdict<'stored' | 'stale'>>(db, 'store_session', [
    {
      ...fenceRow(fence),
      program: session.program,
      program_session_id: plainText(session.programSessionId, 'the session id', 500),
      folder: plainText(session.folder, 'the folder', 4_096),
      resumed: session.resumed,
      answered: session.answered,
      messages_seen: session.messagesSeen,
    },
  ])
  return verdict?.what ?? 'stale'
}
