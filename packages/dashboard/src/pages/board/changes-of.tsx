/** The files that a run or turn changed, with their diff. */
import type { TurnChanges } from '../../api/types.js'
import { bytes, oneLine, plural } from '../../model/text.js'
import { CommentNote, DiffView, type Comments } from './diff-view.js'

interface ChangesProps {
  readonly changes: TurnChanges
  readonly comments: Comments | undefined
}

export function ChangesOf({ changes: { commit, files, moreFiles, diff, isCut, note }, comments }: ChangesProps) {
  return (
    <section>
      <h3 className="font-semibold">
        {plural(files.length + moreFiles, 'file')} changed{commit === null ? '' : ` since commit ${commit.slice(0, 7)}`}
      </h3>
      <ul className="text-sm">
        {files.map(({ path, change, claimed, before, after }) => (
          <li key={path}>
            <bdi className="font-mono text-xs break-all">{oneLine(path, 300)}</bdi>{' '}
            <span className="text-ink-3">
              {[change, claimed ? null : unnamed(change)].filter((part) => part !== null).join(', ')}
            </span>
            <Versions before={before} after={after} />
          </li>
        ))}
        {moreFiles > 0 && <li className="text-ink-3">and {plural(moreFiles, 'more', 'more')}</li>}
      </ul>
      {diff !== null && diff !== '' && (
        <>
          <DiffView diff={diff} comments={comments} />
          {comments !== undefined && <CommentNote count={comments.all.length} />}
        </>
      )}
      {isCut && <p className="label">The diff was cut{commit === null ? '.' : '; git diff shows the rest.'}</p>}
      {note !== null && (
        <p className="label">
          {diff === null ? 'The diff is not shown' : 'The diff is not complete'}: {oneLine(note, 300)}
        </p>
      )}
    </section>
  )
}

type Versions = Pick<TurnChanges['files'][number], 'before' | 'after'>

/** Without git, sizes and hashes say what a file was and is. */
function Versions({ before, after }: Versions) {
  const known = [before, after].filter((one) => one !== undefined && one !== null)
  if (known.length === 0) return null
  const hashes = known.map(({ sha256 }) => sha256?.slice(0, 8) ?? 'not hashed').join(' → ')
  return (
    <span
      className="block font-mono text-xs text-ink-3"
      title={known.map(({ sha256 }) => sha256 ?? 'too large for a hash').join(' → ')}
    >
      {known.map((one) => bytes(one.bytes)).join(' → ')}, SHA-256 {hashes}
    </span>
  )
}

/** Git does not know a new file either: it may hold a secret. */
const unnamed = (change: TurnChanges['files'][number]['change']) =>
  `not named by the agent${change === 'added' ? ', so its content is not shown' : ''}`
