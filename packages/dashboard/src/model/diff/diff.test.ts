import { expect, it } from 'vitest'
import { fileDiffs } from './diff.js'

const diff = `diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -3,3 +3,4 @@ function f() {
 same
-old
+new
+-- b/not a file
 end
@@ -20 +21 @@
-x
\\ No newline at end of file
+y
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
--- a/inside
`

it('separates the files of a diff, and numbers the lines of the new version', () => {
  const [first, second, ...more] = fileDiffs(diff)
  expect(more).toEqual([])
  expect([first!.path, first!.added, first!.removed]).toEqual(['src/a.ts', 3, 2])
  expect(first!.lines.map(({ kind, line }) => [kind, line])).toEqual([
    ['place', null],
    ['same', 3],
    ['removed', null],
    ['added', 4],
    ['added', 5],
    ['same', 6],
    ['place', null],
    ['removed', null],
    ['same', null],
    ['added', 21],
  ])
  expect([second!.path, second!.added, second!.removed]).toEqual(['gone.txt', 0, 1])
})

it('shows text without a diff as it is', () => {
  expect(fileDiffs('hello\nworld\n')).toEqual([
    {
      path: null,
      added: 0,
      removed: 0,
      lines: [
        { kind: 'same', text: 'hello', line: null },
        { kind: 'same', text: 'world', line: null },
      ],
    },
  ])
  expect(fileDiffs('')).toEqual([])
})
