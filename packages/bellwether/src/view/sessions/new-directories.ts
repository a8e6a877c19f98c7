/**
 * The directories that recently appeared in a source. inotify shows a host only its own changes, so a sensor learns from the view
 * which directories other hosts created, and watches them too. One bounded list serves all sessions, each with its position.
 */
import type { PipeCommand } from '@bellwether/protocol'
import type { Session } from './sessions.js'

interface NewDirectory {
  readonly path: string
  readonly modifiedTime: number
  readonly agent: string
}

// A session that falls further behind misses the oldest; the leader's next audit still finds changes there.
const directoriesMax = 10_000
// Per command, by number and by the characters of their paths; the rest follows with the next heartbeat.
const perCommandMax = 1_000
const lengthMax = 200_000

export class NewDirectories {
  #list: NewDirectory[] = []
  /** The position of the first element of the list. */
  #start = 0

  private get end(): number {
    return this.#start + this.#list.length
  }

  add(directory: NewDirectory): void {
    this.#list.push(directory)
    if (this.#list.length < 2 * directoriesMax) return
    this.#list = this.#list.slice(directoriesMax)
    this.#start += directoriesMax
  }

  /** The next directories that other sensors reported, as a command for this session. */
  takeFor(session: Session): PipeCommand[] {
    const directories: { path: string; modified_time: number }[] = []
    let at = Math.max(session.directoriesAt, this.#start)
    for (let length = 0; at < this.end && directories.length < perCommandMax && length < lengthMax; at += 1) {
      const next = this.#list[at - this.#start]!
      if (next.agent === session.info.agentId) continue
      directories.push({ path: next.path, modified_time: next.modifiedTime })
      length += next.path.length
    }
    session.directoriesAt = at
    return directories.length === 0 ? [] : [{ type: 'watch', directories }]
  }

  /** Whether other sensors reported directories that this session has not taken. */
  hasFor(session: Session): boolean {
    let at = Math.max(session.directoriesAt, this.#start)
    while (at < this.end && this.#list[at - this.#start]!.agent === session.info.agentId) at += 1
    session.directoriesAt = at
    return at < this.end
  }
}
