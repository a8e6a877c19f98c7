/** Saves text as a file. A plain link cannot send the headers that a request of this page needs. */
import { clock } from './clock.js'

// The browser reads the text when the download starts.
const releaseMs = 60_000

export function saveText(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  clock.after(releaseMs, () => URL.revokeObjectURL(url))
}
