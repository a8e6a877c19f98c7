/** Passes the page secret to new tabs. A broadcast channel reaches only tabs of this origin, which includes the port. */
import { clock } from './clock.js'

interface Message {
  readonly is: 'question' | 'answer'
  readonly secret?: string
}

const name = 'bellwether.session'
// Tabs answer at once; one that is frozen does not, and then the sign-in page appears.
const patienceMs = 400

// A channel has one origin and takes no target.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
const send = (channel: BroadcastChannel, message: Message) => channel.postMessage(message)

export function askTabs(): Promise<string | undefined> {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(name)
    const settle = (secret?: string) => {
      cancel()
      channel.close()
      resolve(secret)
    }
    const cancel = clock.after(patienceMs, () => settle())
    channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
      if (data.is === 'answer' && data.secret !== undefined) settle(data.secret)
    })
    send(channel, { is: 'question' })
  })
}

/** Answers the questions of other tabs while this one is open. */
export function answerTabs(secretNow: () => string | undefined): void {
  const channel = new BroadcastChannel(name)
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
    const secret = secretNow()
    if (data.is === 'question' && secret !== undefined) send(channel, { is: 'answer', secret })
  })
}
