/** Tests that merging kernel events loses nothing that a later read cannot show. */
import { describe, expect, it } from 'vitest'
import { Changes } from './changes.js'
import { mask } from './inotify.js'

function after(...bits: readonly number[]) {
  const changes = new Changes(200)
  for (const each of bits) changes.note('/d', { watch: 1, mask: each, name: 'f' }, 0)
  return changes
}
const one = (...bits: readonly number[]) => after(...bits).take(10, 0, true)

describe('pending changes', () => {
  it('[V3.1] a file that is created, written often and closed is read once and is complete', () => {
    const taken = one(mask.created, mask.modified, mask.modified, mask.closedWrite)
    expect(taken).toHaveLength(1)
    expect(taken[0]).toMatchObject({ arrived: true, gone: false, writing: 'closed' })
  })

  it('[V3.1] a file that is deleted and created again keeps the deletion', () => {
    expect(one(mask.deleted, mask.created)[0]).toMatchObject({ gone: true, arrived: true, writing: 'open' })
    expect(one(mask.movedTo, mask.deleted)[0]).toMatchObject({ gone: true, writing: 'same' })
  })

  it('[V3.1] a renamed temporary file is complete; a write after the close is not', () => {
    expect(one(mask.movedTo)[0]).toMatchObject({ writing: 'closed' })
    expect(one(mask.closedWrite, mask.modified)[0]).toMatchObject({ writing: 'open' })
  })

  it('[V3.1] a busy writer is reported after a pause, and at once before a barrier', () => {
    const changes = after(mask.modified, mask.modified)
    expect(changes.take(10, 100, false)).toHaveLength(0)
    expect(changes.take(10, 100, true)).toHaveLength(1)
    expect(after(mask.modified).take(10, 200, false)).toHaveLength(1)
    expect(after(mask.modified, mask.closedWrite).take(10, 0, false)).toHaveLength(1)
  })
})
