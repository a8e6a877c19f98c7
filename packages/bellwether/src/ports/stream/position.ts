/**
 * Finds the relay's position on the NATS server: the cursor of the last stored event, or the position that a second stream holds after
 * each batch, if the last event has expired or commands (which are not stored) came after it. Saving is best effort: with an older
 * position the relay sends some commands again.
 */
import { objectOf, parseJson } from '@bellwether/base'
import type { JetStreamClient, JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import { JetStreamApiError, RetentionPolicy, StorageType } from '@nats-io/jetstream'
import { isCursor } from './stream.js'

export const positionStream = 'BW_POSITION'
const positionSubject = 'bw.relay.position'
export const cursorHeader = 'Bw-Cursor'

const streamNotFound = 10_059
const nameInUse = 10_058
// Other clients may have published after the relay's last event. Beyond this many messages (one or two seconds of reading)
// the saved position is used, and events published after it are repeated.
const searchedMax = 10_000

interface Position {
  readonly created: string
  readonly seq: number
  readonly cursor: string
}

export function hasApiCode(error: unknown, code: number): boolean {
  return error instanceof JetStreamApiError && error.code === code
}

/** The stream's state; creates the stream if it is missing. */
export async function ensureStream(
  manager: JetStreamManager,
  config: Parameters<JetStreamManager['streams']['add']>[0],
): Promise<StreamInfo> {
  try {
    return await manager.streams.info(config.name)
  } catch (error) {
    if (!hasApiCode(error, streamNotFound)) throw error
  }
  try {
    return await manager.streams.add(config)
  } catch (error) {
    // Another relay created it first.
    if (!hasApiCode(error, nameInUse)) throw error
    return await manager.streams.info(config.name)
  }
}

async function savedPosition(manager: JetStreamManager): Promise<Position | undefined> {
  const info = await ensureStream(manager, {
    name: positionStream,
    subjects: [positionSubject],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    max_msgs: 1,
  })
  if (info.state.messages === 0) return undefined
  const message = await manager.streams.getMessage(positionStream, { seq: info.state.last_seq })
  const { created, seq, cursor } = objectOf(message === null ? undefined : parseJson(message.string()))
  if (typeof created !== 'string' || typeof seq !== 'number' || typeof cursor !== 'string') return undefined
  return isCursor(cursor) ? { created, seq, cursor } : undefined
}

export async function savePosition(client: JetStreamClient, position: Position, timeout: number): Promise<void> {
  await client.publish(positionSubject, JSON.stringify(position), { timeout, expect: { streamName: positionStream } })
}

/** The cursor of the newest message after sequence `after` that has one. */
async function storedCursor(manager: JetStreamManager, info: StreamInfo, after: number): Promise<string | undefined> {
  const { first_seq: first, last_seq: last, messages } = info.state
  if (messages === 0) return undefined
  const from = Math.max(first, after + 1, last - searchedMax)
  for (let seq = last; seq >= from; seq -= 1) {
    const message = await manager.streams.getMessage(info.config.name, { seq })
    const cursor = message?.header?.get(cursorHeader) ?? ''
    if (isCursor(cursor)) return cursor
  }
  return undefined
}

export async function findCursor(manager: JetStreamManager, info: StreamInfo): Promise<string | undefined> {
  const position = await savedPosition(manager)
  const known = position?.created === info.created && position.seq <= info.state.last_seq ? position : undefined
  if (known?.seq === info.state.last_seq) return known.cursor
  return (await storedCursor(manager, info, known?.seq ?? 0)) ?? known?.cursor
}
