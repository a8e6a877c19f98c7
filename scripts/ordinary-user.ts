/**
 * Lets tests that run as root start processes as an ordinary user. That user must be able to read the repository: a clone below a private
 * folder, such as one of `mktemp -d`, is closed to it, and then these tests are skipped.
 */
import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const nobodyUid = 65_534
const othersMayEnter = 0o005

const isRoot = process.getuid?.() === 0

function isOpen(folder: string): boolean {
  const isEntered = (statSync(folder).mode & othersMayEnter) === othersMayEnter
  return isEntered && (dirname(folder) === folder || isOpen(dirname(folder)))
}

/** Whether a test can run a process without the rights of root. */
export const canBeOrdinary = !isRoot || isOpen(fileURLToPath(new URL('.', import.meta.url)))

/** Options of a process of an ordinary user: the user of the tests, or `nobody` if that is root. */
export const ordinaryUser: { readonly uid?: number } = isRoot ? { uid: nobodyUid } : {}
